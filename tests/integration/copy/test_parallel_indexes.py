"""Indexes of a copied table are built several at a time, each with its own record."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from londiste.copy import indexes
from londiste.copy.restore import restore
from londiste.copy.sessions import Builds, CopyJob, CopySessions
from londiste.copy.step_timings import Tally
from londiste.db.ddl import pieces
from londiste.engine.local.engine import LocalEngine
from londiste.errors import EventError, LondisteError
from tests.fixtures.cluster import Database
from tests.integration.copy.test_dropped_objects import (  # noqa: F401 -- fixtures
    TABLE,
    leaf,
    ready,
    registered,
    structure,
    write,
)
from tests.support.waiting import wait_for

#: An index whose build waits for the advisory lock 42.
SLOW = """
create function public.slow(text) returns text language plpgsql immutable as
    'begin perform pg_advisory_xact_lock_shared(42); return $1; end';
create index one on public.t (public.slow(code));
create index two on public.t (public.slow(code) desc);
create index three on public.t (parent);
"""
BUILDING = "select count(*) from pg_stat_progress_create_index where relid = 'public.t'::regclass"

SESSIONS = (
    "select count(*) from pg_stat_activity where datname = current_database()"
    " and application_name like 'londiste copy index %'"
)


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "WORTH", 0)


def sides(
    db: Database, stopping: Callable[[], bool] = lambda: False, **builds: int
) -> CopySessions:
    job = CopyJob(db.dsn, "q", "w", LocalEngine(), lock_timeout_ms=5000, builds=Builds(**builds))
    return CopySessions(job, TABLE, stopping)


def fill(db: Database, rows: int = 200) -> None:
    write(
        db,
        "insert into public.t select i, i::text, int4range(i, i + 1)"
        f" from generate_series(1, {rows}) i",
    )


class Background(threading.Thread):
    """Builds what is to be built; ``error`` is what it raised."""

    def __init__(self, where: CopySessions) -> None:
        super().__init__()
        self.where, self.tally, self.error = where, Tally(), None
        self.error: LondisteError | None = None
        self.start()

    def run(self) -> None:
        table = registered(self.where.here)
        try:
            indexes.build(self.where, table, indexes.worth_it(self.where, table), self.tally)
        except LondisteError as error:
            self.error = error


def left(db: Database) -> list[str]:
    """Names of the indexes that are still to be built."""
    text = db.value("select dropped_ddl from londiste.table_info") or ""
    return [piece.name for piece in pieces(text) if piece.name is not None]


def test_all_indexes_come_back_and_the_rest_stays_stored_until_it_is_run(
    leaf: Database,  # noqa: F811
) -> None:
    before = structure(leaf)
    conn, _ = ready(leaf)
    fill(leaf)
    here = sides(leaf)
    table = registered(conn)
    wanted = indexes.worth_it(here, table)
    assert len(wanted) >= 5
    tally = Tally()
    indexes.build(here, table, wanted, tally)
    assert tally.tasks == len(wanted)
    assert left(leaf) == []
    keys = "select count(*) from pg_constraint where contype = 'p' and conrelid = %s::regclass"
    assert leaf.value(keys, "public.t") == 0
    assert restore(conn, "q", registered(conn))
    assert structure(leaf) == before
    assert registered(conn).dropped_ddl is None


def test_what_is_stored_is_still_one_script(leaf: Database) -> None:  # noqa: F811
    before = structure(leaf)
    conn, _ = ready(leaf)
    fill(leaf)
    conn.execute(str(registered(conn).dropped_ddl).encode())
    assert structure(leaf) == before


def test_several_are_built_at_a_time_and_not_more_than_are_allowed(
    leaf: Database,  # noqa: F811
) -> None:
    leaf.execute(SLOW + "create index four on public.t (public.slow(code), id)")
    ready(leaf)
    fill(leaf)
    with leaf.connect() as holder:
        holder.execute("select pg_advisory_lock(42)")
        work = Background(sides(leaf, jobs=2))
        both = [BUILDING, SESSIONS]
        # One of the first two may be the quick one, which ends.
        wait_for(lambda: [leaf.value(one) for one in both] == [2, 2], what="two builds to wait")
        assert {"one", "two", "four"} <= set(left(leaf))
    work.join()
    assert work.error is None
    assert left(leaf) == []


def test_a_build_that_is_killed_costs_only_its_own_index(
    leaf: Database,  # noqa: F811
) -> None:
    leaf.execute(SLOW)
    ready(leaf)
    fill(leaf)
    all_of_them = left(leaf)
    with leaf.connect() as holder:
        holder.execute("select pg_advisory_lock(42)")
        work = Background(sides(leaf, jobs=3))
        wait_for(lambda: sorted(left(leaf)) == ["one", "two"], what="the others to be built")
        wait_for(
            lambda: (
                leaf.value(
                    "select array_agg(application_name order by application_name)"
                    " from pg_stat_activity"
                    " where datname = current_database() and state = 'active'"
                    " and application_name like 'londiste copy index %'"
                )
                == ["londiste copy index one", "londiste copy index two"]
            ),
            what="both to be built at the same time",
        )
        leaf.execute(
            "select pg_terminate_backend(pid) from pg_stat_progress_create_index"
            " where datname = current_database()"
        )
        work.join()
    assert work.error is not None and work.error.retry
    assert sorted(left(leaf)) == ["one", "two"]
    again = Background(sides(leaf))
    again.join()
    assert again.error is None
    assert again.tally.tasks == 2
    assert left(leaf) == []
    built = leaf.value(
        "select count(*) from pg_index i join pg_class c on c.oid = i.indexrelid"
        " where i.indrelid = 'public.t'::regclass and c.relname = any(%s)",
        all_of_them,
    )
    assert built == len(all_of_them)


def test_two_processes_build_no_index_twice(leaf: Database) -> None:  # noqa: F811
    leaf.execute(SLOW)
    ready(leaf)
    fill(leaf)
    with leaf.connect() as holder:
        holder.execute("select pg_advisory_lock(42)")
        first = Background(sides(leaf, jobs=3))
        wait_for(lambda: sorted(left(leaf)) == ["one", "two"], what="the others to be built")
        second = Background(sides(leaf, jobs=3))
        wait_for(
            lambda: (
                leaf.value(
                    "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
                    " and query like '%londiste copy index %'"
                )
                == 2
            ),
            what="the second process to wait for the first",
        )
    first.join()
    second.join()
    assert (first.error, second.error) == (None, None)
    assert left(leaf) == []


def test_rows_that_do_not_fit_one_index_keep_no_other_from_being_built(
    leaf: Database,  # noqa: F811
) -> None:
    leaf.execute("create unique index twice on public.t (parent) where parent is not null")
    conn, _ = ready(leaf)
    write(leaf, "insert into public.t (id, code, parent) values (1, 'a', 7), (2, 'b', 7)")
    work = Background(sides(leaf))
    work.join()
    assert isinstance(work.error, EventError)
    assert "twice" in work.error.message
    assert left(leaf) == ["twice"]
    write(leaf, "update public.t set parent = id")
    work = Background(sides(leaf))
    work.join()
    assert work.error is None
    assert restore(conn, "q", registered(conn))


def test_the_memory_of_all_builds_is_the_budget(leaf: Database) -> None:  # noqa: F811
    # The build waits for the lock that has the number of its bytes.
    leaf.execute(
        "create function public.memory(text) returns text language plpgsql immutable as $f$"
        " begin perform pg_advisory_xact_lock_shared("
        "     pg_size_bytes(current_setting('maintenance_work_mem')));"
        " return $1; end $f$; create index one on public.t (public.memory(code))"
    )
    ready(leaf)
    fill(leaf, 1)
    with leaf.connect() as holder:
        holder.execute("select pg_advisory_lock(16 * 1024 * 1024)")
        work = Background(sides(leaf, jobs=4, budget=64 * 1024 * 1024))
        wait_for(lambda: left(leaf) == ["one"], what="the other indexes")
    work.join()
    assert work.error is None
    assert left(leaf) == []


def test_a_small_table_needs_no_session_for_each_index(
    leaf: Database,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(indexes, "WORTH", 1)
    conn, _ = ready(leaf)
    assert indexes.worth_it(sides(leaf), registered(conn)) == []
