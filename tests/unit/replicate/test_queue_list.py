"""Pure parts of several queues: names, messages, states, files."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, cast

import pytest

from londiste.cascade.commands.endpoint import Endpoint
from londiste.cascade.model import NodeInfo
from londiste.db.names import TableName
from londiste.replicate import save
from londiste.replicate.asked import Asked
from londiste.replicate.databases import ReplicateSettings, Replication
from londiste.replicate.queue_list import described, is_further, number_of, warnings
from londiste.replicate.remaining import Existing, later
from londiste.replicate.setup import Selection, Share
from londiste.replicate.state import NodeState, by_queue, line, total
from londiste.replicate.table_groups import Distribution, Relation

A, B, C, D = (TableName("public", name) for name in "abcd")
SETTINGS = ReplicateSettings(queues=2)


def _replication(queue: str) -> Replication:
    sides = [Endpoint(name, f"dbname={name}", f"dbname={name}", f"w_{name}") for name in "xy"]
    return Replication(SETTINGS, queue, sides[0], (sides[1],))


FIRST, SECOND = _replication("shop"), _replication("shop_2")


@pytest.mark.parametrize(
    ("queue", "number"),
    [("shop_2", 2), ("shop_10", 10), ("shop", None), ("shop_1", None), ("shop_02", None)],
)
def test_the_number_of_a_queue_is_in_its_name(queue: str, number: int | None) -> None:
    assert number_of(queue, "shop") == number
    assert number_of(queue, "sho.") is None


@pytest.mark.parametrize(
    ("queue", "node", "worker", "further"),
    [
        ("shop_2", "new", "replicate_new_queue_2", True),
        ("shop_3", "new", "replicate_new_queue_2", False),
        # Created by other commands, and the only queue of another replication.
        ("shop_2", "new", "worker", False),
        ("shop_2", "new_queue_2", "replicate_new_queue_2", False),
    ],
)
def test_a_further_queue_is_known_by_its_worker(
    queue: str, node: str, worker: str, further: bool
) -> None:
    class Info:
        name = node

    info = cast(Any, Info())
    info.worker = worker
    assert is_further(queue, cast(NodeInfo, info), "shop") is further


def test_the_part_of_a_selection_has_its_patterns_and_no_other_table() -> None:
    whole = Selection(("a", "b", "public.[cd]", "*"), exclude=("d",))
    part = whole.part([A])
    assert part.patterns == ("a", "*") and part.choose([A, B, C, D], "here") == [A]
    assert Selection().part([]).choose([A, B], "here") == []


def test_several_queues_are_listed_and_fewer_have_a_reason() -> None:
    one = Share(FIRST, Selection(), (A, B, C, D))
    assert described([one], ReplicateSettings()) == []
    assert described([one], SETTINGS) == [
        "1 of 2 queues used: related tables are in one queue, and a table stays in its queue"
    ]
    two = [one, Share(SECOND, Selection(), (A,))]
    lines = [
        "queue shop: 4 tables: public.a, public.b, public.c and 1 more",
        "queue shop_2: table public.a",
    ]
    assert described(two, SETTINGS) == lines
    assert described(two, ReplicateSettings()) == lines
    assert described(two, ReplicateSettings(queues=1))[2:] == [
        "2 queues exist and stay: a table stays in its queue"
    ]


def test_tables_between_queues_are_named() -> None:
    pairs = tuple(Relation(A, other, "foreign key") for other in (B, C, D, A))
    assert warnings(Distribution({}, {A: ("shop", "shop_2")}, pairs)) == [
        "table public.a is not added: it is related to tables of queues shop, shop_2",
        "related tables are in different queues, without a common order: public.a and public.b"
        " (foreign key), public.a and public.c (foreign key), public.a and public.d (foreign key)"
        " and 1 more",
    ]


def test_the_steps_of_all_queues_are_shown_together() -> None:
    shares = [
        Share(FIRST, Selection(only=frozenset([A, B])), (A, B)),
        Share(SECOND, Selection(only=frozenset()), ()),
    ]
    nothing: Existing = {"x": None, "y": None}
    assert [step.describe() for step in later(shares, [nothing] * 2)] == [
        "x: create root of queue shop",
        "x: create root of queue shop_2",
        "y: create leaf of queue shop, provider x",
        "y: create leaf of queue shop_2, provider x",
        "x: add 2 tables to queue shop",
        "y: create if missing and add 2 tables to queue shop, to be copied",
    ]
    # What the databases have is done.
    assert [step.describe() for step in later(shares, [{"x": [A], "y": None}, nothing])] == [
        "x: create root of queue shop_2",
        "y: create leaf of queue shop, provider x",
        "y: create leaf of queue shop_2, provider x",
        "x: add table public.b to queue shop",
        "y: create if missing and add 2 tables to queue shop, to be copied",
    ]
    assert later(shares, [{"x": [A, B], "y": [A, B]}, {"x": [], "y": []}]) == []


def test_status_sums_up_the_queues() -> None:
    root = [NodeState("x", True, 3, 3), NodeState("x", True, 1, 1)]
    leaf = [NodeState("y", False, 3, 3, 1, 0), NodeState("y", False, 1, 0, 4, 700, 2.25)]
    found = [list(pair) for pair in zip(root, leaf, strict=True)]
    assert [line(one) for one in total(found)] == [
        "x: root, 4 tables",
        "y: 3 of 4 tables in sync; behind by 4 ticks, 700 events, 2.2 s",
    ]
    assert [line(one) for one in by_queue([FIRST, SECOND], found)] == [
        "x, queue shop: root, 3 tables",
        "y, queue shop: in sync, 3 tables",
        "x, queue shop_2: root, 1 table",
        "y, queue shop_2: 0 of 1 table in sync; behind by 4 ticks, 700 events, 2.2 s",
    ]
    assert [one.name for one in by_queue([FIRST], found[:1])] == ["x", "y"]
    assert by_queue([FIRST, SECOND], []) == total([]) == []
    # What is unknown in one queue is unknown, and an error of one is one of all.
    (sum_up,) = total([[leaf[0]], [NodeState("y", False, 1, 1, None, None, errors=("no",))]])
    assert sum_up.ticks is None and sum_up.events is None and not sum_up.in_sync
    (sum_up,) = total([[leaf[0]], [leaf[0]]])
    assert sum_up.in_sync


def test_each_queue_has_a_file_with_the_names_of_its_tables() -> None:
    whole = Selection(exclude=("log",))
    odd = TableName("public", "c*")
    shares = [Share(FIRST, whole.part([B, A]), (A, B)), Share(SECOND, whole.part([odd]), (odd,))]
    written = save.files(Path("/d/shop.toml"), shares)
    assert list(written) == [Path("/d/shop.toml"), Path("/d/shop_2.toml")]
    first, second = map(tomllib.loads, written.values())
    assert first["queue"]["name"] == "shop" and second["queue"]["name"] == "shop_2"
    assert first["tables"] == {"include": ["public.a", "public.b"]}
    assert second["tables"] == {"include": [r"public.c\*"]}
    (only,) = save.files(Path("shop.toml"), [Share(FIRST, whole, (A,))]).values()
    assert tomllib.loads(only)["tables"] == {"include": ["*.*"], "exclude": ["log"]}


def test_a_repeated_command_keeps_the_number_of_queues() -> None:
    asked = Asked("dbname=x", ("dbname=y",), None, Selection(("a",)), 3)
    assert asked.repeated("--detach").endswith("a --queues 3 --detach")
    assert "--queues" not in asked.command("--remove")
    assert "--queues" not in Asked("dbname=x", ("dbname=y",), None).repeated()
