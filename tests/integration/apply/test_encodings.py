"""Values that the encoding of a target lacks, or that are no text: such an event can be skipped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from londiste.cascade.model import NodeType
from londiste.db import connection
from londiste.install.apply import install
from tests.fixtures.cluster import Database, Server
from tests.fixtures.line import QUEUE, Line, LineNode
from tests.support.scenarios.processes import Done, Processes
from tests.support.suite import slow

NAME = "ld_ascii_source"
SCHEMA = "create table t (id int primary key, v text); create table u (id int primary key, v text)"
#: Its value is the byte E9, which is no UTF-8.
BAD = "insert into {} values ({}, convert_from('\\xe9736563726574', 'SQL_ASCII'))"


def _line(
    cluster: Server, new_database: Callable[..., Database], directory: Path, encoding: str, nr: int
) -> Iterator[Line]:
    """A line whose node number nr, from 0, is in a database of this encoding."""
    odd = Database(cluster, NAME)
    with connection.session(cluster.dsn(), autocommit=True) as conn:
        conn.execute(f"drop database if exists {NAME}".encode())
        conn.execute(
            f"create database {NAME} encoding '{encoding}' lc_collate 'C' lc_ctype 'C'"
            " template template0".encode()
        )
    with connection.session(odd.dsn, autocommit=True) as conn:
        install(conn)
    made = 0

    def make(*, on: Server | None = None, pgq: bool = False) -> Database:
        nonlocal made
        made += 1
        return odd if made == nr + 1 else new_database(on=on, pgq=pgq)

    line = Line(directory, make, Processes(directory))
    line.node("root", NodeType.ROOT, schema=SCHEMA)
    yield line
    assert not line.processes.close()
    odd.drop()


@pytest.fixture
def ascii_line(
    cluster: Server, new_database: Callable[..., Database], tmp_path: Path
) -> Iterator[Line]:
    """A line whose root is in a database of encoding SQL_ASCII."""
    yield from _line(cluster, new_database, tmp_path, "SQL_ASCII", 0)


@pytest.fixture
def narrow_line(
    cluster: Server, new_database: Callable[..., Database], tmp_path: Path
) -> Iterator[Line]:
    """A line whose second node is in a database of encoding LATIN1."""
    yield from _line(cluster, new_database, tmp_path, "LATIN1", 1)


def event_of(line: Line, table: str) -> int:
    """The id of the newest event of a table."""
    statement = "select max(ev_id) from pgq.event_template where ev_extra1 = %s"
    return int(line.nodes["root"].database.value(statement, f"public.{table}"))


def stopped(line: Line, node: LineNode, event: int) -> Done:
    """Runs the worker, which halts at the event; the error shows no value."""
    done = line.here(node, "worker", "--once")
    assert done.code == 5, str(done)
    assert f"event {event} contains bytes that are no text in UTF-8" in done.err
    assert "unexpected" not in done.err and "secret" not in done.err
    shown = line.here(node, "events", "show")
    assert str(event) in shown.out and "secret" not in shown.out, str(shown)
    return done


def skip(line: Line, node: LineNode, event: int) -> None:
    """Skips the event, and applies what comes after it."""
    done = line.here(node, "events", "skip", str(event), "--reason", "no text")
    assert done.code == 0, str(done)
    line.once(node)


@pytest.mark.parametrize("others", slow.first([3000, 0]))
def test_an_event_that_is_no_text_is_stored_and_can_be_skipped(
    ascii_line: Line, others: int
) -> None:
    line, root = ascii_line, ascii_line.nodes["root"]
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    line.add(root, "t", "u")
    line.add(leaf, "t")
    line.once(leaf)
    # Events of other tables are ignored, whatever is in them.
    root.database.execute(BAD.format("u", 1))
    root.database.execute("insert into t values (1, 'x')")
    line.tick()
    line.once(leaf)
    assert leaf.database.execute("select id from t") == [(1,)]
    root.database.execute(BAD.format("t", 2))
    bad = event_of(line, "t")
    root.database.execute(
        f"insert into t select i, repeat('x', 900) from generate_series(3, {3 + others}) i"
    )
    line.tick()
    stopped(line, leaf, bad)
    assert "\\xe9" in line.here(root, "queue", "events", QUEUE, "--id", str(bad)).out
    skip(line, leaf, bad)
    assert leaf.database.value("select count(*) from t where id <> 2") == 2 + others
    assert leaf.database.value("select count(*) from t where id = 2") == 0


def test_a_branch_forwards_no_event_that_is_no_text(ascii_line: Line) -> None:
    line, root = ascii_line, ascii_line.nodes["root"]
    branch = line.node("branch", NodeType.BRANCH, root, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, branch, schema=SCHEMA)
    line.add(root, "t", "u")
    for node in (branch, leaf):
        line.add(node, "t")
        line.once(node)
    for table in ("u", "t"):
        root.database.execute(BAD.format(table, 1))
        bad = event_of(line, table)
        root.database.execute(f"insert into {table} values (2, 'x')")
        line.tick()
        stopped(line, branch, bad)
        skip(line, branch, bad)
    line.once(leaf)
    for node in (branch, leaf):
        assert node.database.execute("select id, v from t") == [(2, "x")]


@pytest.mark.parametrize(
    ("policy", "others"),
    slow.first(
        [
            ("error", 3000),
            ("skip_and_log", 0),
            ("error", 0),
            ("skip_and_log", 3000),
            ("keep_local", 0),
            ("keep_local", 3000),
        ],
        2,
    ),
)
def test_a_value_that_the_target_cannot_have_is_shown_and_can_be_skipped(
    narrow_line: Line, policy: str, others: int
) -> None:
    line, root = narrow_line, narrow_line.nodes["root"]
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    line.add(root, "t")
    line.add(leaf, "t")
    assert line.here(leaf, "change-policy", "t", policy).code == 0
    line.once(leaf)
    root.database.execute("insert into t values (1, 'é'), (2, 'secret 日')")
    bad = event_of(line, "t")
    root.database.execute(
        f"insert into t select i, repeat('é', 900) from generate_series(3, {3 + others}) i"
    )
    line.tick()
    done = line.here(leaf, "worker", "--once")
    assert "secret" not in done.err
    if policy == "error":
        assert done.code == 5, str(done)
        assert "then copy the table again: londiste resync public.t" in done.err
        (found,) = json.loads(line.here(leaf, "events", "show", "--json").out)["events"]
        assert found["row"] == {"id": "2", "v": "secret 日"}
        assert found["event"].startswith(str(bad)), found
        line.here(leaf, "events", "skip", found["event"], "--reason", "no such letter")
        line.once(leaf)
    else:
        assert done.code == 0, str(done)
    if policy == "skip_and_log":
        shown = json.loads(line.here(leaf, "events", "conflicts", "--rows", "--json").out)
        assert [json.loads(one["image"]) for one in shown["rows"]] == [
            {"id": "2", "v": "secret 日"}
        ]
    assert leaf.database.value("select count(*) from t") == 2 + others
    assert leaf.database.value("select v from t where id = 1") == "é"
