"""Movers into a node: what a producer may not insert there, no mover inserts for him."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest

from londiste.errors import EventError
from londiste.pgq import producer, queues
from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_root
from tests.integration.consumer.test_movers import (
    TARGET,
    arrived,
    mover,
    send,
    source,
    splitter,
    target,
)
from tests.support.suite.slow import first, only

__all__ = ["source", "target"]

#: As a producer without other rights would write them: type, extra1.
FORGED = [
    ("U:id", "public.t"),
    ("D", "public.t"),
    ("R", "public.t"),
    ("TRUNCATE", "public.t"),
    ('{"op":"UPDATE","table":["public","t"],"pkey":["id"]}', None),
    ("EXECUTE", "script.sql"),
    ("pgq.location-info", "node"),
    ("londiste.remove-table", "public.t"),
    # A type that replication does not know, of a table of the queue.
    ("signup", "public.listed"),
]


@pytest.fixture
def node(target: Database) -> Database:
    """The queue of the target is the root of a cascade, with a table."""
    make_root(target, TARGET)
    target.execute(
        "create table listed (id int primary key);"
        f"select londiste.local_add_table('{TARGET}', 'public.listed', array['no_triggers'])"
    )
    return target


@pytest.mark.parametrize(
    ("kind", "table"), only(FORGED, FORGED[0], FORGED[4], FORGED[5], FORGED[8])
)
def test_the_mover_stops_at_an_event_that_is_for_administrators(
    source: Database, node: Database, kind: str, table: str | None
) -> None:
    moving = mover(source, node)
    moving.register()
    before = arrived(node)
    send(source, ("signup", "fine"), (kind, "id=1&v=forged", table))
    for _ in range(2):
        with pytest.raises(EventError, match=f"queue {TARGET} is a node of a cascade") as caught:
            moving.run_once()
        assert arrived(node) == before
    number = source.value("select max(ev_id) from pgq.event_template")
    assert caught.value.event_id == number
    assert "forged" not in f"{caught.value} {caught.value.detail} {caught.value.hint}"


def test_events_of_applications_are_moved_into_a_node(source: Database, node: Database) -> None:
    moving = mover(source, node)
    moving.register()
    before = arrived(node)
    send(source, ("signup", "a@b", "mails"), (None, None))
    moving.run_once()
    assert [row[:3] for row in arrived(node)[len(before) :]] == [
        ("signup", "a@b", "mails"),
        (None, None, None),
    ]


def test_the_hint_leaves_the_event_out_and_keeps_the_condition(
    source: Database, node: Database
) -> None:
    given: dict[str, Any] = {"consumer_filter": "ev_data = 'x' or ev_data = 'y' -- both"}
    moving = mover(source, node, **given)
    moving.register()
    send(source, ("I:id", "x", "public.t"), ("signup", "y"), ("signup", "z"))
    with pytest.raises(EventError) as caught:
        moving.run_once()
    option = shlex.split(caught.value.hint[caught.value.hint.index("--set ") :])[1]
    name, _, condition = option.partition("=")
    mover(source, node, **{name: condition}).run_once()
    assert [row[1] for row in arrived(node)][-1] == "y"
    assert "x" not in [row[1] for row in arrived(node)]


@pytest.mark.parametrize("engine", first(["process", "local"]))
def test_the_splitter_stops_at_a_row_change_for_a_node(
    source: Database, node: Database, engine: str
) -> None:
    queues.create_queue(node.connect(), "plain")
    splitting = splitter(
        source, node, queue_field="extra2", engine=engine, parallel_apply_min_events=2
    )
    before = arrived(node)
    # A queue that is no node takes everything.
    send(source, ("U:id", "id=1&v=1", "public.t", "plain"), ("signup", "1", "mails", TARGET))
    splitting.run_once()
    assert len(arrived(node, "plain")) == 1
    assert len(arrived(node)) == len(before) + 1
    send(source, *[("U:id", "id=1&v=1", "public.t", name) for name in ("plain", TARGET)])
    with pytest.raises(EventError, match=re.escape("is a node of a cascade")) as caught:
        splitting.run_once()
    assert caught.value.event_id == source.value("select max(ev_id) from pgq.event_template")
    assert len(arrived(node, "plain")) == 1
    assert len(arrived(node)) == len(before) + 1


def test_a_queue_of_the_batch_cannot_become_a_node_before_its_end(
    source: Database, target: Database
) -> None:
    """What makes it safe to ask once per batch, after the first insert."""
    with target.connect(autocommit=False) as conn, target.connect() as other:
        producer.insert_events(conn, TARGET, [("U:id", "id=1", "public.t")])
        assert not queues.is_node(conn, TARGET)
        other.execute("set lock_timeout = '100ms'")
        other.execute(f"select pgq_node.register_location('{TARGET}', 'n1', 'dbname=n1', false)")
        with pytest.raises(Exception, match="lock timeout"):
            other.execute(
                f"select pgq_node.create_node('{TARGET}', 'root', 'n1', 'w1', null, null, null)"
            )
        conn.rollback()


def test_a_list_of_queues_limits_what_events_may_name(source: Database, target: Database) -> None:
    queues.create_queue(target.connect(), "other")
    splitting = splitter(source, target, target_queues=TARGET, default_queue="other")
    send(source, ("t", "1", TARGET), ("t", "2", None))
    splitting.run_once()
    assert [row[1] for row in arrived(target)] == ["1"]
    assert [row[1] for row in arrived(target, "other")] == ["2"]
    queues.create_queue(target.connect(), "secret")
    send(source, ("t", "3", "secret"))
    with pytest.raises(EventError, match="queue 'secret' is not in target_queues"):
        splitting.run_once()
    assert arrived(target, "secret") == []


def test_the_first_refused_event_is_found_by_its_place(node: Database) -> None:
    with node.connect() as conn:
        types = ["signup", None, "EXECUTE", "EXECUTE"]
        assert producer.first_refused_event(conn, TARGET, types, [None] * 4) == 2
        assert producer.first_refused_event(conn, TARGET, ["a", "b"], ["x", "listed"]) == 1
        assert producer.first_refused_event(conn, TARGET, ["a", "b"], ["x", None]) is None
        queues.create_queue(conn, "plain")
        assert producer.first_refused_event(conn, "plain", types, [None] * 4) is None
