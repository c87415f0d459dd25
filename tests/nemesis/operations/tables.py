"""Operations on tables, and nothing at all."""

from __future__ import annotations

import random
from typing import Any

from londiste.selftest.shapes import lit
from tests.nemesis import validators
from tests.nemesis.operations.change import OPERATIONS, Args, Change, Words, added, subscriber
from tests.nemesis.plan import Model
from tests.nemesis.writer import ALWAYS


@OPERATIONS.add("traffic", weight=1.5, more=Change())
def traffic(model: Model, args: Args) -> list[Words]:
    """Nothing but what applications do."""
    return []


def _draw_add(model: Model, chance: random.Random) -> Args:
    number = chance.choice(model.free())
    return {
        "table": number,
        "form": chance.choice(model.table(number).shape.forms),
        "mode": chance.choice(["auto", "snapshot", "resumable"]),
        "trigger": chance.choice(["capture"] * 4 + ["logutriga", "jsontriga", "sqltriga"]),
    }


def _apply_add(model: Model, args: Args) -> None:
    for numbers in model.replicated.values():
        numbers.add(args["table"])
    if args.get("trigger", "capture") == "capture" or "all" in args:
        return
    shape = model.table(args["table"]).shape
    if not shape.options and len(shape.forms) > 1:
        model.compatible.add(args["table"])


@OPERATIONS.add(
    "add-table",
    weight=6,
    when=lambda model: bool(model.free()),
    draw=_draw_add,
    more=Change(_apply_add, Model.free),
)
def add_table(model: Model, args: Args) -> list[Words]:
    table = model.table(args["table"])
    form = args.get("form", "auto")
    form = form if form in table.shape.forms else "auto"
    on_root = ["--form", form, *table.shape.options]
    trigger, compatible = args.get("trigger", "capture"), False
    if trigger != "capture" and not table.shape.options and len(table.shape.forms) > 1:
        on_root = ["--trigger", trigger]
        compatible = True
    # A resumable copy requires a key and the native capture.
    mode = "auto" if table.shape.keyless or compatible else args.get("mode", "auto")
    found = [(model.root, ["add-table", table.name, *on_root])]
    for node in model.subscribers():
        found.append((node, ["add-table", table.name, "--copy-mode", mode]))
    return found


def _apply_remove(model: Model, args: Args) -> None:
    if args["all"]:
        model.compatible.discard(args["table"])
        for numbers in model.lost.values():
            numbers.discard(args["table"])
    for node in model.replicated if args["all"] else model.world.leaves:
        model.replicated[node].discard(args["table"])
        model.whole(node, args["table"])
    if not args["all"]:
        # It comes back at once, with another copy.
        _apply_add(model, args)


@OPERATIONS.add(
    "remove-table",
    weight=1.5,
    when=added,
    draw=lambda model, chance: {
        "table": chance.choice(model.everywhere()),
        "all": chance.random() < 0.5,
    },
    more=Change(_apply_remove),
)
def remove_table(model: Model, args: Args) -> list[Words]:
    name = model.table(args["table"]).name
    if args["all"]:
        nodes = [*reversed(model.subscribers()), model.root]
        return [(node, ["remove-table", name, "--ignore-missing"]) for node in nodes]
    found = []
    for node in model.world.leaves:
        found.append((node, ["remove-table", name, "--ignore-missing"]))
        found.append((node, ["add-table", name]))
    return found


@OPERATIONS.add(
    "resync",
    weight=3,
    when=added,
    draw=lambda model, chance: {
        "table": chance.choice(model.everywhere()),
        "node": chance.choice(model.subscribers()),
        "always": chance.random() < 0.15,
    },
    more=Change(),
)
def resync(model: Model, args: Args) -> list[Words]:
    name = "nemesis.token" if args["always"] else model.table(args["table"]).name
    return [(subscriber(model, args), ["resync", name])]


@OPERATIONS.add(
    "compare",
    weight=2,
    when=added,
    draw=lambda model, chance: {"node": chance.choice(model.subscribers())},
    more=Change(),
)
def compare(model: Model, args: Args) -> list[Words]:
    return [(subscriber(model, args), ["compare", "--json", *compared(model)])]


def compared(model: Model) -> list[str]:
    """What ``compare`` is given: nothing, or all but a table with parts, which it refuses."""
    if not model.world.merges:
        return []
    return [*ALWAYS, *(model.table(n).name for n in model.everywhere())]


def _has_forms(model: Model) -> list[int]:
    return [
        n
        for n in model.everywhere()
        if len(model.table(n).shape.forms) > 1 and n not in model.compatible
    ]


@OPERATIONS.add(
    "change-form",
    weight=1.5,
    when=lambda model: bool(_has_forms(model)),
    draw=lambda model, chance: {
        "table": chance.choice(_has_forms(model)),
        "form": chance.choice(["row", "statement", "auto"]),
    },
    more=Change(numbers=_has_forms),
)
def change_form(model: Model, args: Args) -> list[Words]:
    return [(model.root, ["change-form", model.table(args["table"]).name, args["form"]])]


#: Shape -> conditions of filters: on the key, on other columns, on what may be NULL.
CONDITIONS = {
    "plain": ("id < 15", "v like '%1%'"),
    "composite": ("a < 3", "n > 0"),
    "types": ("ok", "f < 1", "d is not null"),
    "quoted": ('"Order" < 15', '"select" is not null'),
    "textkey": ("v < 0", "k < 'm'"),
    "generated": ("k < 15", "a < 500"),
    "toast": ("small < 50",),
    "custom": ("id < 15", "m = 'happy'"),
    "partitioned": ("id < 20",),
    "unique": ("id < 15",),
    "dropped": ("id < 15", "v is not null"),
    "wide": ("id < 15", "c7 is not null"),
    "serial": ("k < 15",),
}


def _filterable(model: Model) -> list[int]:
    return [
        n
        for n in model.everywhere()
        if model.table(n).shape.name in CONDITIONS and n not in model.compatible
    ]


def _draw_filter(model: Model, chance: random.Random) -> Args:
    table = chance.choice(_filterable(model))
    conditions = CONDITIONS[model.table(table).shape.name]
    return {
        "table": table,
        "node": chance.choice(model.world.leaves),
        "where": chance.choice([*conditions, *conditions, ""]),
    }


def _apply_filter(model: Model, args: Args) -> None:
    model.filters.pop((args["node"], args["table"]), None)
    if args["where"]:
        model.filters[args["node"], args["table"]] = args["where"]


@OPERATIONS.add(
    "change-filter",
    weight=2,
    when=lambda model: bool(_filterable(model)),
    draw=_draw_filter,
    more=Change(_apply_filter, numbers=_filterable),
)
def change_filter(model: Model, args: Args) -> list[Words]:
    words = ["change-handler", model.table(args["table"]).name, "--where", args["where"]]
    return [(args["node"], words)]


@OPERATIONS.add(
    "change-policy",
    when=added,
    draw=lambda model, chance: {
        "table": chance.choice(model.everywhere()),
        "node": chance.choice(model.subscribers()),
        "policy": chance.choice(["error", "keep_local", "apply_remote", "skip_and_log"]),
    },
    more=Change(),
)
def change_policy(model: Model, args: Args) -> list[Words]:
    """Without a conflict, none of them makes a difference."""
    name = model.table(args["table"]).name
    return [(subscriber(model, args), ["change-policy", name, args["policy"]])]


@OPERATIONS.add(
    "execute",
    weight=2,
    when=added,
    draw=lambda model, chance: {
        "table": chance.choice(model.everywhere()),
        "what": chance.choice(["add", "comment", "index", "rows"]),
        "name": model.count("script"),
    },
    more=Change(),
)
def execute(model: Model, args: Args) -> list[Words]:
    table = model.table(args["table"])
    n = args["name"]
    script = {
        "add": f"alter table {table.sql} add column extra{n} int default 7",
        "comment": f"comment on table {table.sql} is {lit(f'script {n}')}",
        "index": f"create index on {table.sql} (({n}))",
        "rows": f"delete from {table.sql} where {table.where(n)}",
    }[args["what"]]
    return [(model.root, ["execute", "--sql", script, "--name", f"script{n}"])]


@OPERATIONS.add(
    "repair",
    when=lambda model: any(not model.table(n).shape.keyless for n in model.everywhere()),
    draw=lambda model, chance: {
        "table": chance.choice([n for n in model.everywhere() if not model.table(n).shape.keyless]),
        "number": model.count("plan"),
        "node": chance.choice([n for n in model.world.leaves if n != model.root]),
    },
    more=Change(),
)
def repair(model: Model, args: Args) -> list[Any]:
    """Rows of a leaf are lost by hand; compare must find it, repair must bring them back."""
    table, node = model.table(args["table"]), args["node"]
    if table.shape.keyless or node == model.root:
        return []

    plan = f"{{directory}}/plan{args['number']}.sql"

    def lost(life: Any) -> None:
        """No application writes: the worker would halt at a row that it misses."""
        with life.writer.held(), life.cast.connect(node) as conn:
            validators.settle(life, "before rows are lost")
            conn.execute("set session_replication_role = replica")
            count = conn.execute(
                f"delete from {table.sql} where ctid in (select ctid from {table.sql} limit 2)"
            ).rowcount
            fork = life.run(node, "compare", "--json", table.name)
            assert fork.code() == (3 if count else 0), f"{count} rows are lost: {fork}"
            life.command(node, "repair", table.name, "--apply", "--plan", plan, "--overwrite")

    return [lost]
