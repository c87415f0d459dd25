"""Two sources with a combined queue and a standby, switched over under writes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import Database
from tests.support.scenarios import oracles
from tests.support.scenarios.combined_cascade import ALL, PARTS, TABLES, Combined, Source

#: Where the worker of a part is killed.
POINTS = (
    "worker.mid-apply",
    "worker.before-commit",
    "worker.after-commit",
    "worker.before-finish",
)


@pytest.fixture
def combined(tmp_path: Path, new_database: Callable[..., Database]) -> Iterator[Combined]:
    made = Combined(tmp_path, new_database)
    yield made
    made.close()


def _begin(combined: Combined) -> None:
    combined.merge("first")
    combined.merge("second")
    combined.start_ticker()
    combined.add_tables()
    combined.start()
    combined.wait_sync()


def _sources(combined: Combined, stack: contextlib.ExitStack) -> list[Source]:
    return [stack.enter_context(Source(part, combined.at[part])) for part in PARTS]


@pytest.mark.slow
def test_the_combined_root_moves_there_and_back_while_the_sources_write(
    combined: Combined,
) -> None:
    _begin(combined)
    with contextlib.ExitStack() as stack:
        sources = _sources(combined, stack)
        for source in sources:
            source.wait(20)
        combined.run(f"{ALL}@second", "switchover", "--block", "60")
        assert (combined.kind("first"), combined.kind("second")) == ("branch", "root")
        for source in sources:
            source.wait(20)
        combined.compare()
        combined.workers["one@second"].kill()
        combined.start("one@second")
        combined.run(f"{ALL}@second", "switchover", "--to", "first", "--block", "60")
        assert (combined.kind("first"), combined.kind("second")) == ("root", "branch")
        combined.compare()
        for source in sources:
            source.wait(20)
            source.stop()
    combined.assert_equal()
    combined.compare()
    for place in ("first", "second"):
        count = combined.at[place].value("select count(*) from log")
        assert count == sum(source.written for source in sources)


KEYS = (
    "select conname::text, convalidated from pg_constraint"
    " where contype = 'f' and conrelid = 'child'::regclass order by 1"
)
PENDING = "select count(*) from londiste.pending_fkeys"


@pytest.mark.slow
def test_foreign_keys_come_back_behind_a_merge_and_behind_a_switchover(combined: Combined) -> None:
    for place in (*PARTS, "first", "second"):
        combined.at[place].execute(
            "create table child (part text, id int, primary key (part, id),"
            " constraint to_t foreign key (part, id) references t)"
        )
    for part in PARTS:
        combined.at[part].execute("insert into child select part, id from t where id % 2 = 0")
    combined.merge("first")
    combined.merge("second")
    combined.start_ticker()
    # The referenced table first: it cannot be emptied while the key is there.
    combined.add_tables(*TABLES, "public.child")
    assert combined.at["first"].value(PENDING) == 1
    combined.start()
    combined.wait_sync()
    for place in ("first", "second"):
        combined.wait(
            lambda place=place: combined.at[place].execute(KEYS) == [("to_t", True)],
            f"the key at {place}",
        )
        combined.wait(lambda place=place: not combined.at[place].value(PENDING), "nothing left")
    # A branch that has keys to restore becomes the root.
    second = combined.at["second"]
    combined.stop(f"{ALL}@second")
    second.execute("select londiste.drop_table_fkey('public.child', 'to_t')")
    second.execute("update londiste.pending_fkeys set to_table = 'public.nothing_yet'")
    combined.start(f"{ALL}@second")
    combined.run(f"{ALL}@second", "switchover", "--block", "60")
    second.execute("update londiste.pending_fkeys set to_table = 'public.t'")
    combined.wait(lambda: second.execute(KEYS) == [("to_t", True)], "the key of the new root")


@pytest.mark.slow
def test_workers_of_parts_and_the_server_of_the_combined_root_are_killed(
    tmp_path: Path, new_cluster: Callable[..., Cluster], new_database: Callable[..., Database]
) -> None:
    own = new_cluster("first", settings={"fsync": "on"})
    combined = Combined(tmp_path, new_database, servers={"first": own})
    with contextlib.ExitStack() as stack:
        stack.callback(combined.close)
        _begin(combined)
        sources = _sources(combined, stack)
        for place, other in (("first", "second"), ("second", "first")):
            for point in POINTS:
                name, mark = f"one@{place}", tmp_path / f"{place}.{point}"
                combined.workers[name].kill()
                combined.start(name, LONDISTE_CRASH=point, LONDISTE_CRASH_MARK=str(mark))
                combined.wait(mark.exists, f"a crash of {name} at {point}")
                combined.start(name)
                combined.wait_even()
            combined.run(f"{ALL}@{place}", "switchover", "--to", other, "--block", "60")
            combined.compare()
        # Back at the first place, whose server dies while the next change is under way.
        switching = combined.background(f"{ALL}@second", "switchover", "--block", "60")
        closed = "select queue_disable_insert from pgq.queue where queue_name = 'all'"
        combined.wait(lambda: combined.at["first"].value(closed), "the root to be closed")
        own.stop("immediate")
        switching.wait(90)
        own.up()
        combined.run(f"{ALL}@second", "switchover", "--block", "60")
        assert (combined.kind("first"), combined.kind("second")) == ("branch", "root")
        for source in sources:
            source.wait(50)
        combined.compare()
        combined.run(f"{ALL}@second", "switchover", "--to", "first", "--block", "60")
        for source in sources:
            source.wait(50)
        combined.compare()
        # It is lost; what the stand-by had not got comes from the sources.
        own.stop("immediate")
        for source in sources:
            source.wait(50)
        combined.run(f"{ALL}@second", "takeover", "first", "--failover")
        for source in sources:
            source.wait(50)
            source.stop()
        combined.wait_even("second")
        combined.assert_complete("second")
        # Back again, it takes nothing any more and its leaves say so.
        own.up()
        combined.wait(lambda: combined.at["first"].value(closed), "the old root to be fenced")
        combined.at["one"].execute("insert into log values ('one', 1000000)")
        combined.wait(lambda: "takes no events" in combined.error("one", "first"), "its leaf", 90)
        combined.wait_even("second")
        combined.assert_complete("second")


@pytest.mark.slow
def test_one_source_is_down_while_tables_are_added_and_the_combined_root_moves(
    tmp_path: Path, new_cluster: Callable[..., Cluster], new_database: Callable[..., Database]
) -> None:
    own = new_cluster("one", settings={"fsync": "on"})
    combined = Combined(tmp_path, new_database, servers={"one": own})
    with contextlib.ExitStack() as stack:
        stack.callback(combined.close)
        _begin(combined)
        for database in combined.at.values():
            database.execute("create table u (part text, n int, primary key (part, n))")
        for part in PARTS:
            combined.at[part].execute(
                "insert into u select %s, i from generate_series(1, 50) i", part
            )
            combined.here(f"{part}@{part}", "add-table", "public.u")
        combined.wait_even()
        own.stop("immediate")
        stack.enter_context(two := Source("two", combined.at["two"]))
        two.wait(20)
        combined.here("one@first", "tag-dead", "one")
        # For the queue whose source is down nothing is done; the other one takes it along.
        said = combined.run("one@first", "add-table", "public.u", "--merge-all", accept=(6,)).err
        assert "error:" in said and "hint:" in said
        combined.here("two@first", "add-table", "public.u", "--merge-all")
        combined.here(f"{ALL}@second", "add-table", "public.u")
        combined.here("two@second", "add-table", "public.u")
        query = "select count(*) from u where part = 'two'"
        combined.wait(lambda: combined.at["first"].value(query) == 50, "the part of two")
        # Nobody copies the table from there before the other part is there.
        said = combined.run(f"{ALL}@second", "switchover", accept=(3,)).err
        assert "public.u" in said and "not in sync" in said
        assert combined.at["second"].value("select count(*) from u") == 0
        own.up()
        combined.here("one@first", "tag-alive", "one")
        combined.here("one@second", "add-table", "public.u")
        combined.wait_sync()
        own.stop("immediate")
        two.wait(20)
        combined.run(f"{ALL}@second", "switchover", "--block", "60")
        before = two.written
        combined.wait(
            lambda: combined.at["second"].value(
                "select count(*) > %s from log where part = 'two'", before
            ),
            "rows of two at the new root",
        )
        with contextlib.suppress(psycopg.Error):
            own.up()
        combined.at["one"].execute("insert into u values ('one', 51)")
        two.stop()
        combined.assert_equal()
        oracles.assert_same_rows(combined.at["first"], combined.at["second"], ["public.u"])
        assert combined.at["second"].value("select count(*) from u") == 101
        combined.run(f"{ALL}@first", "compare")
        combined.run("one@second", "compare", "log", "--where", "part = 'one'")
