"""What operators do: each kind gives the commands of one operation, in their order.

A kind says when it is possible, what is decided beforehand, and how it changes the model
(``Change.apply``).  A command is (node, words); a function is something that the operator does by
hand, given the cast.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from londiste.selftest.registry import Registry
from londiste.selftest.shapes import lit
from tests.nemesis import validators
from tests.nemesis.plan import Model
from tests.nemesis.worlds import World
from tests.nemesis.writer import ALWAYS

Args = dict[str, Any]
Words = tuple[str, list[str]]

OPERATIONS = Registry()


@dataclass(frozen=True)
class Change:
    """What the plan knows of an operation.

    apply -- follows it in the model; numbers -- tables that it can be given.
    fits -- whether it is possible in a world at all.
    """

    apply: Callable[[Model, Args], None] = lambda model, args: None
    numbers: Callable[[Model], list[int]] = Model.everywhere
    fits: Callable[[World], bool] = lambda world: True

    def able(self, model: Model, numbers: list[int]) -> bool:
        return any(n in self.numbers(model) for n in numbers)

    def takes(self, model: Model, args: Args) -> bool:
        """Whether arguments fit the model, which may lack steps that were dropped."""
        return ("table" not in args or args["table"] in self.numbers(model)) and (
            "to" not in args or args["to"] in [model.root, *_branches(model)]
        )


def _table(numbers: Callable[[Model], list[int]]) -> Callable[..., Args]:
    return lambda model, chance: {"table": chance.choice(numbers(model))}


def _added(model: Model) -> bool:
    return bool(model.everywhere())


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
    for node in model.replicated if args["all"] else model.world.leaves:
        model.replicated[node].discard(args["table"])
        model.filters.pop((node, args["table"]), None)
    if not args["all"]:
        # It comes back at once, with another copy.
        _apply_add(model, args)


@OPERATIONS.add(
    "remove-table",
    weight=1.5,
    when=_added,
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
    when=_added,
    draw=lambda model, chance: {
        "table": chance.choice(model.everywhere()),
        "node": chance.choice(model.subscribers()),
        "always": chance.random() < 0.15,
    },
    more=Change(),
)
def resync(model: Model, args: Args) -> list[Words]:
    name = "nemesis.token" if args["always"] else model.table(args["table"]).name
    node = args["node"] if args["node"] != model.root else model.subscribers()[0]
    return [(node, ["resync", name])]


@OPERATIONS.add(
    "compare",
    weight=2,
    when=_added,
    draw=lambda model, chance: {"node": chance.choice(model.subscribers())},
    more=Change(),
)
def compare(model: Model, args: Args) -> list[Words]:
    node = args["node"] if args["node"] != model.root else model.subscribers()[0]
    return [(node, ["compare", "--json"])]


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
_CONDITIONS = {
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
        if model.table(n).shape.name in _CONDITIONS and n not in model.compatible
    ]


def _draw_filter(model: Model, chance: random.Random) -> Args:
    table = chance.choice(_filterable(model))
    conditions = _CONDITIONS[model.table(table).shape.name]
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
    when=_added,
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
    node = args["node"] if args["node"] != model.root else model.subscribers()[0]
    return [(node, ["change-policy", name, args["policy"]])]


def _apply_rename(model: Model, args: Args) -> None:
    model.names[args["node"]] = args["name"]


@OPERATIONS.add(
    "rename-node",
    draw=lambda model, chance: {
        "node": chance.choice([model.root, *model.subscribers()]),
        "name": f"node{model.count('name')}",
    },
    more=Change(_apply_rename),
)
def rename_node(model: Model, args: Args) -> list[Words]:
    return [(model.root, ["rename-node", model.called(args["node"]), args["name"]])]


def _apply_recreate(model: Model, args: Args) -> None:
    model.names[args["node"]] = args["name"]
    for number in model.replicated[args["node"]]:
        model.filters.pop((args["node"], number), None)


@OPERATIONS.add(
    "drop-node",
    draw=lambda model, chance: {
        "node": chance.choice(model.world.leaves),
        "name": f"node{model.count('name')}",
    },
    more=Change(_apply_recreate),
)
def drop_node(model: Model, args: Args) -> list[Any]:
    """A leaf goes, and the same database becomes another leaf, with all tables."""
    node = args["node"]
    provider = model.world.providers[node]
    assert provider is not None

    def without_worker(life: Any) -> None:
        worker, life.cast.places[node].worker = life.cast.places[node].worker, None
        worker.send(15)
        code = worker.wait(25)
        assert code in (0, -9, -15), f"worker ended with {code}: {worker.err[-1500:]}"

    def made_again(life: Any) -> None:
        places = life.cast.places
        for watcher in life.watchers:
            if watcher.node == node:
                watcher.forget()
        words = [args["name"], places[node].location, "--provider", places[provider].location]
        life.command(node, "create-leaf", *words)
        life.cast.start_worker(node)

    names = [model.table(number).name for number in sorted(model.replicated[node])]
    return [
        without_worker,
        (model.root, ["drop-node", model.called(node)]),
        made_again,
        (node, ["add-table", *ALWAYS, *names]),
    ]


@OPERATIONS.add(
    "execute",
    weight=2,
    when=_added,
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
    "pause",
    draw=lambda model, chance: {"node": chance.choice(model.subscribers())},
    more=Change(),
)
def pause(model: Model, args: Args) -> list[Words]:
    node = args["node"] if args["node"] != model.root else model.subscribers()[0]
    return [(node, ["pause", "--timeout", "20"]), (node, ["resume", "--timeout", "20"])]


@OPERATIONS.add(
    "status",
    draw=lambda model, chance: {"node": chance.choice([model.root, *model.subscribers()])},
    more=Change(),
)
def status(model: Model, args: Args) -> list[Words]:
    return [(args["node"], ["status", "--json"]), (args["node"], ["tables", "--json"])]


@OPERATIONS.add(
    "restart",
    draw=lambda model, chance: {"node": chance.choice(model.subscribers())},
    more=Change(),
)
def restart(model: Model, args: Args) -> list[Any]:
    """The worker is stopped politely and started again."""

    def again(life: Any) -> None:
        cast = life.cast
        worker = cast.places[args["node"]].worker
        worker.send(15)
        code = worker.wait(25)
        # -15: it had just begun, and did not handle signals yet.
        assert code in (0, -9, -15), f"worker ended with {code}: {worker.err[-1500:]}"
        cast.start_worker(args["node"])

    return [again]


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


@OPERATIONS.add(
    "local row",
    draw=lambda model, chance: {"node": chance.choice(model.subscribers())},
    more=Change(),
)
def local_row(model: Model, args: Args) -> list[Any]:
    """Somebody has inserted a row on a subscriber that the root inserts later: the worker halts."""
    node = args["node"] if args["node"] != model.root else model.subscribers()[0]

    def meets(life: Any) -> None:
        with life.cast.connect(node) as conn:
            conn.execute("set session_replication_role = replica")
            with life.writer.held():
                number = life.writer.next_number()
                conn.execute("insert into nemesis.notice values (%s, 'local')", [number])
            validators.halts(life, node, number)
            conn.execute("delete from nemesis.notice where n = %s", [number])

    return [meets]


def _has_branch(world: World) -> bool:
    return any(n.startswith("branch") for n in world.providers)


def _branches(model: Model) -> list[str]:
    return [n for n in model.subscribers() if n.startswith("branch") or n == "root"]


def _apply_switch(model: Model, args: Args) -> None:
    old, new = model.root, args["to"]
    up = model.world.providers[new]
    model.world.providers[new] = None
    model.world.providers[old] = new
    # A branch between them reads on as it did.
    if up != old:
        model.world.providers[old] = new
    model.root = new


@OPERATIONS.add(
    "switchover",
    weight=2,
    when=lambda model: any(model.world.providers[n] == model.root for n in _branches(model)),
    draw=lambda model, chance: {
        "to": chance.choice([n for n in _branches(model) if model.world.providers[n] == model.root])
    },
    more=Change(_apply_switch, fits=_has_branch),
)
def switchover(model: Model, args: Args) -> list[Words]:
    if args["to"] == model.root:
        return []
    return [(model.root, ["switchover", "--to", model.called(args["to"]), "--timeout", "30"])]


def _can_be_lost(model: Model) -> bool:
    """The root's subscribers are branches: a leaf could be ahead of them and could not share it."""
    below = [n for n, up in model.world.providers.items() if up == model.root]
    return bool(below) and set(below) <= set(_branches(model)) and _complete(model)


def _complete(model: Model) -> bool:
    return set(model.on_root()) == set(model.everywhere())


def _apply_takeover(model: Model, args: Args) -> None:
    old, new = model.root, args["to"]
    for node, up in model.world.providers.items():
        if up == old:
            model.world.providers[node] = new
    model.world.providers[new] = None
    del model.world.providers[old], model.replicated[old]
    model.root = new


@OPERATIONS.add(
    "takeover",
    weight=1.5,
    when=_can_be_lost,
    draw=lambda model, chance: {
        "to": chance.choice([n for n in _branches(model) if model.world.providers[n] == model.root])
    },
    more=Change(_apply_takeover, fits=_has_branch),
)
def takeover(model: Model, args: Args) -> list[Any]:
    """The root is lost for ever, with the last transactions of applications."""
    if args["to"] == model.root:
        return []
    lost, to = model.root, args["to"]
    words = ["takeover", model.called(lost), "--failover", "--node", model.called(to)]
    return [lambda life: life.lose(lost), (to, [*words, "--timeout", "30"])]


def _apply_provider(model: Model, args: Args) -> None:
    model.world.providers[args["node"]] = args["to"]


@OPERATIONS.add(
    "change-provider",
    weight=2,
    when=lambda model: (
        any(
            model.world.providers[n] is not None
            and any(b != model.world.providers[n] for b in [model.root, *_branches(model)])
            for n in model.world.leaves
        )
        and bool(_branches(model))
    ),
    draw=lambda model, chance: {
        "node": (node := chance.choice(list(model.world.leaves))),
        "to": chance.choice(
            [b for b in [model.root, *_branches(model)] if b != model.world.providers[node]]
        ),
    },
    more=Change(_apply_provider, fits=_has_branch),
)
def change_provider(model: Model, args: Args) -> list[Words]:
    node, provider = model.called(args["node"]), model.called(args["to"])
    words = ["change-provider", "--node", node, "--provider", provider, "--timeout", "30"]
    return [(args["node"], words)]
