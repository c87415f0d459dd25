"""Nodes that keep a part of the rows, or other values: shards, filters of branches, handlers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from tests.nemesis import validators
from tests.nemesis.operations.change import OPERATIONS, Args, Change, Words, branches, has_branch
from tests.nemesis.operations.tables import CONDITIONS
from tests.nemesis.plan import Model

#: Shape -> a column of its key, and one whose values may be hidden.
_COLUMNS = {
    "plain": ("id", "v"),
    "quoted": ("Order", "select"),
    "textkey": ("k", "w"),
}


def _plain(model: Model) -> list[int]:
    """Tables that a handler can be given: on no node a part of their rows is kept."""
    parts = {number for _, number in (*model.filters, *model.shards)}
    return [
        n
        for n in model.everywhere()
        if model.table(n).shape.name in _COLUMNS and n not in model.compatible and n not in parts
    ]


def _shardable(model: Model) -> list[int]:
    return [
        n
        for n in model.everywhere()
        if model.table(n).shape.name in _COLUMNS and n not in model.compatible
    ]


def _apply_shard(model: Model, args: Args) -> None:
    model.shards.pop((args["node"], args["table"]), None)
    if args["count"] > 1:
        column = _COLUMNS[model.table(args["table"]).shape.name][0]
        hashed = f'hashtextextended("{column}"::text collate "C", 0)'
        where = f"coalesce({hashed}, 0) & {args['count'] - 1} = {args['nr']}"
        model.shards[args["node"], args["table"]] = where


@OPERATIONS.add(
    "change-shard",
    weight=2,
    when=lambda model: bool(_shardable(model)),
    draw=lambda model, chance: {
        "table": chance.choice(_shardable(model)),
        "node": chance.choice(model.world.leaves),
        "count": (count := chance.choice([1, 2, 4])),
        "nr": chance.randrange(count),
    },
    more=Change(_apply_shard, numbers=_shardable, newer=True, shapes=tuple(_COLUMNS)),
)
def change_shard(model: Model, args: Args) -> list[Words]:
    """A leaf keeps another part of the rows, by a hash; or all of them again."""
    table = model.table(args["table"])
    words = ["change-handler", table.name]
    if args["count"] > 1:
        given = (f"key={_COLUMNS[table.shape.name][0]}", f"nr={args['nr']}")
        words += ["--handler", "shard"]
        for one in (*given, f"count={args['count']}"):
            words += ["--handler-arg", one]
    return [(args["node"], words)]


def _filterable(model: Model) -> list[int]:
    """Tables of which every leaf has all rows that its provider has."""
    return [
        n
        for n in model.everywhere()
        if model.table(n).shape.name in CONDITIONS and n not in model.compatible
    ]


def _below(model: Model) -> list[str]:
    return [n for n in branches(model) if n != model.root]


def _apply_filter(model: Model, args: Args) -> None:
    model.filters.pop((args["node"], args["table"]), None)
    if args["where"]:
        model.filters[args["node"], args["table"]] = args["where"]


def _draw_filter(model: Model, chance: random.Random) -> Args:
    table = chance.choice(_filterable(model))
    conditions = CONDITIONS[model.table(table).shape.name]
    return {
        "table": table,
        "node": chance.choice(_below(model)),
        "where": chance.choice([*conditions, *conditions, ""]),
    }


@OPERATIONS.add(
    "filter-branch",
    weight=4,
    when=lambda model: bool(_below(model) and _filterable(model)),
    draw=_draw_filter,
    more=Change(
        _apply_filter, numbers=_filterable, fits=has_branch, newer=True, shapes=tuple(CONDITIONS)
    ),
)
def filter_branch(model: Model, args: Args) -> list[Words]:
    """The nodes below get what the branch keeps, and copy the table again after it."""
    if args["node"] == model.root:
        return []
    words = ["change-handler", model.table(args["table"]).name, "--where", args["where"]]
    return [(args["node"], words)]


@OPERATIONS.add(
    "handler",
    weight=3,
    when=lambda model: bool(_plain(model)),
    draw=lambda model, chance: {
        "table": chance.choice(_plain(model)),
        "node": chance.choice(model.world.leaves),
        "handler": chance.choice(list(_HANDLERS)),
    },
    more=Change(numbers=_plain, newer=True, shapes=tuple(_COLUMNS)),
)
def handler(model: Model, args: Args) -> list[Any]:
    """A leaf has another handler for a while, and the default one again."""
    node, table = args["node"], model.table(args["table"])
    key, value = _COLUMNS[table.shape.name]
    options, check = _HANDLERS[args["handler"]]
    words = ["change-handler", table.name, "--handler", args["handler"]]
    for one in options(key, value):
        words += ["--handler-arg", one]

    def checked(life: Any) -> None:
        life.aside.add((node, table.name))
        before = None
        for _ in range(2):
            with life.writer.held():
                validators.settle(life, f"with handler {args['handler']}")
                found = [_column(life, n, table.sql, (key, value)) for n in (model.root, node)]
                wrong = check(found[0], found[1], before)
                assert not wrong, f"handler {args['handler']} of {table.name} on {node}: {wrong}"
                before = found[1]
            life.pass_time(0.3)

    def again(life: Any) -> None:
        life.command(node, "change-handler", table.name)
        life.aside.discard((node, table.name))

    return [(node, words), checked, again]


_Rows = dict[str, str | None]


def _column(life: Any, node: str, table: str, columns: tuple[str, str]) -> _Rows:
    """Key -> value."""
    key, value = columns
    return dict(life.cast.rows(node, f'select "{key}"::text, "{value}"::text from {table}'))


def _same(root: _Rows, leaf: _Rows, before: _Rows | None) -> str:
    wrong = [k for k in root.keys() | leaf.keys() if root.get(k, "-") != leaf.get(k, "-")]
    return f"keys with other rows {sorted(wrong)[:4]}" if wrong else ""


def _untouched(root: _Rows, leaf: _Rows, before: _Rows | None) -> str:
    return "rows have changed" if before is not None and before != leaf else ""


def _hidden(root: _Rows, leaf: _Rows, before: _Rows | None) -> str:
    """The same keys; equal values have equal hashes, and no hash is a value."""
    if root.keys() != leaf.keys():
        return f"keys {sorted(root.keys() ^ leaf.keys())[:4]} are on one of the nodes only"
    pairs = {(root[k], leaf[k]) for k in root}
    if len(pairs) != len({a for a, _ in pairs}) or len(pairs) != len({b for _, b in pairs}):
        return "values and hashes do not belong to each other"
    shown = [a for a, b in pairs if (a is None) != (b is None) or (a is not None and a == b)]
    return f"{len(shown)} values are not hidden" if shown else ""


def _rules(key: str, value: str) -> list[str]:
    return ["rules=" + json.dumps({key: "keep", value: "hash"})]


def _none(key: str, value: str) -> list[str]:
    return []


#: Handler -> its options, and what is wrong with the rows of root and leaf.
_HANDLERS: dict[
    str, tuple[Callable[[str, str], list[str]], Callable[[_Rows, _Rows, _Rows | None], str]]
] = {
    "nop": (_none, _untouched),
    "obfuscate": (_rules, _hidden),
    "direct": (lambda key, value: ["row_mode=plain"], _same),
}
