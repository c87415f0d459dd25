"""Foreign keys after a copy are validated in the background, with recorded time."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.line import Line, LineNode
from tests.support.servers.kept_nodes import kept_nodes

SCHEMA = """
create table a (k int primary key, id int not null);
create table b (k int primary key, id int);
create table c (k int primary key);
"""
#: A key whose check compares by a function that waits for the advisory lock 42.
KEY = """
create function slow(int, int) returns int language plpgsql immutable strict as
    'begin perform pg_advisory_xact_lock_shared(42); return btint4cmp($1, $2); end';
create operator class slow_ops for type int using btree as
    operator 1 <, operator 2 <=, operator 3 =, operator 4 >=, operator 5 >,
    function 1 slow(int, int);
create unique index a_id on a (id slow_ops);
set enable_hashjoin = off;
alter table b add constraint b_a foreign key (id) references a (id);
"""
CHECKING = """
select count(*) from pg_stat_activity
where datname = current_database() and application_name = 'londiste copy keys'
    and wait_event_type = 'Lock' and query like '%VALIDATE%'
"""
VALID = "select convalidated from pg_constraint where conname = 'b_a'"
PENDING = "select count(*) from londiste.pending_fkeys"


@kept_nodes
def _pair(line: Line) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    # What waits for the test shall not give up on a slow machine.
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA + KEY, lock_timeout=120)
    root.database.execute(
        "insert into a select i, i from generate_series(1, 50) i; insert into b table a"
    )
    line.add(root, "public.a", "public.b", "public.c")
    line.tick()
    line.once(leaf)
    line.add(leaf, "public.c")
    line.add(leaf, "public.a", "public.b", expect_sync=False)
    return root, leaf


@pytest.fixture
def pair(line: Line) -> tuple[LineNode, LineNode]:
    """A root with rows and a leaf that is to copy them; the foreign key is on the leaf."""
    root, leaf = _pair(line)
    # The check shall read the index.
    name = leaf.database.value("select current_database()")
    leaf.database.execute(f"alter database {name} set enable_hashjoin = off")
    leaf.database.execute(f"alter database {name} set enable_seqscan = off")
    return root, leaf


@contextlib.contextmanager
def checking(line: Line, leaf: LineNode) -> Iterator[Any]:
    """The worker checks the key, until the block lets go or ends."""
    with leaf.database.connect() as holder:
        # Not before the index is there: building it compares, too.
        leaf.database.execute(
            "create function hold() returns trigger language plpgsql as"
            " 'begin perform pg_advisory_xact_lock_shared(43); return new; end';"
            " create trigger hold before update of merge_state on londiste.table_info"
            " for each row when (new.merge_state = 'ok' and old.table_name = 'public.b')"
            " execute function hold();"
            " alter table londiste.table_info enable always trigger hold"
        )
        holder.execute("select pg_advisory_lock(43)")
        line.start(leaf)

        def both_wait() -> bool:
            line.tick()
            states = dict(
                leaf.database.execute("select table_name, merge_state from londiste.table_info")
            )
            # Copied together they become ok together.
            return all(
                str(states[t]).startswith(("ok", "do-sync")) for t in ("public.a", "public.b")
            )

        line.wait(both_wait, "the tables to be nearly ok", 60)
        holder.execute("select pg_advisory_lock(42)")
        holder.execute("select pg_advisory_unlock(43)")
        line.wait(lambda: leaf.database.value(CHECKING), "the check of the key", 60)
        yield holder


def status(line: Line, leaf: LineNode, *args: str) -> Any:
    done = line.here(leaf, "copy", "status", "--json", *args)
    assert done.code == 0, str(done)
    return json.loads(done.out)


def test_replication_goes_on_while_a_foreign_key_is_checked(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    root, leaf = pair
    with checking(line, leaf) as holder:
        root.database.execute("insert into c values (1)")
        line.wait_position(leaf, line.tick())
        assert leaf.database.value("select count(*) from c") == 1
        assert leaf.database.value(VALID) is False
        (shown,) = status(line, leaf)["tables"]
        assert (shown["table"], shown["state"], shown["step"]) == ("public.b", "ok", "foreign-keys")
        holder.execute("select pg_advisory_unlock(42)")
        line.wait(lambda: leaf.database.value(VALID), "the key to be checked", 90)
        line.wait(lambda: leaf.database.value(PENDING) == 0, "the key to be forgotten", 90)
    (step,) = [s for s in status(line, leaf, "--done")["steps"] if s["step"] == "foreign-keys"]
    assert (step["table"], step["finished"], step["tasks"]) == ("public.b", True, 1)
    assert status(line, leaf)["tables"] == []
    assert leaf.worker is not None and leaf.worker.stop() == 0


@pytest.mark.slow
def test_a_worker_killed_while_it_checks_a_key_checks_it_again(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    _, leaf = pair
    with checking(line, leaf) as holder:
        assert leaf.worker is not None
        leaf.worker.kill()
        assert leaf.worker.wait() == -signal.SIGKILL
        assert leaf.database.value(PENDING) == 1
        line.start(leaf)
        holder.execute("select pg_advisory_unlock(42)")
        line.wait(lambda: leaf.database.value(PENDING) == 0, "the key to be checked", 90)
    assert leaf.database.value(VALID)
    assert leaf.worker is not None and leaf.worker.stop() == 0


@pytest.mark.slow
def test_a_worker_that_ends_does_not_wait_for_the_check(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    _, leaf = pair
    with checking(line, leaf):
        assert leaf.worker is not None
        assert leaf.worker.stop() == 0
        assert leaf.database.value(CHECKING) == 0
        assert leaf.database.value(PENDING) == 1


def test_a_key_that_rows_do_not_fit_says_so_and_comes_back_when_they_do(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    root, leaf = pair
    root.database.execute("insert into b values (99, 99)")
    line.start(leaf)

    def reason() -> str:
        line.tick()
        shown = [t for t in status(line, leaf)["tables"] if t["step"] == "foreign-keys"]
        return str(shown[0]["waits"]) if shown else ""

    found = line.wait(lambda: reason(), "the key that does not fit", 60)
    assert "b_a" in found and "(id)=(…)" in found
    assert "99" not in found, "a value of a row"
    assert leaf.worker is not None and leaf.worker.stop() == 0
    root.database.execute("delete from b where k = 99")
    line.tick()
    line.once(leaf)
    line.once(leaf)
    assert leaf.database.value(VALID)
    assert leaf.database.value(PENDING) == 0
    assert status(line, leaf)["tables"] == []


@pytest.mark.parametrize(
    ("command", "table"),
    [
        ("remove-table", "public.a"),
        pytest.param("remove-table", "public.b", marks=pytest.mark.slow),
        pytest.param("resync", "public.a", marks=pytest.mark.slow),
        pytest.param("resync", "public.b", marks=pytest.mark.slow),
    ],
)
def test_a_table_whose_key_is_checked_can_be_taken(
    line: Line, pair: tuple[LineNode, LineNode], command: str, table: str
) -> None:
    _, leaf = pair
    with checking(line, leaf) as holder:
        done = line.here(leaf, command, table)
        assert done.code == 0, str(done)
        holder.execute("select pg_advisory_unlock(42)")
        if command == "resync":

            def whole() -> bool:
                line.tick()
                return bool(leaf.database.value(VALID)) and not leaf.database.value(PENDING)

            line.wait(whole, "the key to be back and checked", 90)
        else:
            assert not leaf.database.value(
                "select local from londiste.table_info where table_name = %s", table
            )
    assert leaf.worker is not None and leaf.worker.stop() == 0
