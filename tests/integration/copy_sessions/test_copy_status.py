"""``londiste copy status`` and the recorded steps of copies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from londiste.cli import cli
from londiste.cli.errors import run
from londiste.copy import progress, status, step_timings
from londiste.copy.sqlapi import attempts
from londiste.errors import TransientError
from tests.fixtures.cascade import Answer
from tests.fixtures.copies import A, B, Nodes, fill, held
from tests.support.hints import plain
from tests.support.waiting import wait_for

Copy = Callable[..., Answer]


@pytest.fixture
def copy(nodes: Nodes, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Copy:
    """``copy("status", "--json")`` -> Answer."""
    file = tmp_path / "n2.toml"
    file.write_text(
        f'[londiste]\ndb = "{nodes.leaf.dsn}"\nqueue_name = "q"\njob_name = "w2"\n'
        'engine = "local"\nexception_sleep = 0.3\n'
    )
    file.chmod(0o600)

    def call(*args: str) -> Answer:
        capsys.readouterr()
        code = run(cli, ["-c", str(file), "copy", *args])
        printed = capsys.readouterr()
        return Answer(code, printed.out, plain(printed.err))

    return call


def begun(nodes: Nodes) -> None:
    wait_for(
        lambda: nodes.leaf.value("select count(*) from pg_stat_progress_copy"),
        what="tasks to begin",
    )


def test_a_running_copy_shows_rows_bytes_chunks_and_its_step(
    nodes: Nodes,
    copy: Copy,
) -> None:
    fill(nodes, A)
    nodes.add(A, B)
    nodes.set_state(B, "ok")
    with held(nodes):
        nodes.start()
        begun(nodes)
        answer = copy("status", "--json")
        assert answer.code == 0
        (item,) = json.loads(answer.out)["tables"]
        assert (item["table"], item["state"], item["step"]) == ("public.a", "in-copy", "load")
        assert item["load"]["total_chunks"] > 1
        assert item["load"]["running"] >= 1
        assert item["mode"] in ("snapshot", "resumable")
        assert item["reason"]
        assert item["load"]["total_bytes"] > 100_000
        shown = copy("status")
        assert "public.a" in shown.out
        assert "public.b" not in shown.out
        assert copy("status", "b").out == ""
    nodes.wait_end()


def test_the_time_left_is_known_once_chunks_are_finished(nodes: Nodes) -> None:
    fill(nodes, A)
    nodes.add(A)
    # Only the last chunk, which has the last row, waits.
    nodes.leaf.execute(
        "create function public.gate() returns trigger language plpgsql as"
        " 'begin if new.id = 3000 then perform pg_advisory_xact_lock_shared(42); end if;"
        " return new; end';"
        " create trigger gate before insert on public.a for each row"
        " execute function public.gate(); alter table public.a enable always trigger gate"
    )
    with nodes.leaf.connect() as holder:
        holder.execute("select pg_advisory_lock(42)")
        nodes.start()
        with nodes.leaf.connect() as conn:

            def all_but_one() -> bool:
                load = status.collect(conn, "q", "w2").tables[0].load
                return load is not None and (load.chunks, load.running) == (
                    load.total_chunks - 1,
                    1,
                )

            wait_for(all_but_one, what="all chunks but one")
            load = status.collect(conn, "q", "w2").tables[0].load
        assert load is not None
        assert load.total_chunks > 2
        assert load.eta is not None and load.eta >= 0
        assert load.rate is not None and load.rate > 0
        assert 2000 < load.rows <= 3000
    nodes.wait_end()


def test_an_index_that_is_built_shows_its_phase(
    nodes: Nodes,
    copy: Copy,
) -> None:
    fill(nodes, A, 100)
    nodes.leaf.execute(
        "create function public.slow(text) returns text language plpgsql immutable as"
        " 'begin perform pg_advisory_xact_lock_shared(42); return $1; end';"
        " create index slowly on public.a (public.slow(v))"
    )
    nodes.add(A)
    with nodes.leaf.connect() as holder:
        holder.execute("select pg_advisory_lock(42)")
        nodes.start()

        def building() -> list[dict[str, object]]:
            items = json.loads(copy("status", "--json").out)["tables"]
            return list(items[0]["builds"]) if items else []

        (build,) = wait_for(building, what="the index to be built")
        assert str(build["phase"]).startswith("building index")
        (item,) = json.loads(copy("status", "--json").out)["tables"]
        assert (item["state"], item["step"]) == ("catching-up", "indexes")
        assert "building index" in copy("status").out
    nodes.wait_end()


def test_a_table_that_catches_up_shows_how_far_it_is_behind(
    nodes: Nodes,
    copy: Copy,
) -> None:
    fill(nodes, A, 10)
    nodes.add(A)
    nodes.start()
    wait_for(
        lambda: (
            nodes.root.execute("select pgq.ticker('q')")
            and "wanna" in str(nodes.leaf.value(_STATE))
        ),
        what="the end of the catch-up",
    )
    nodes.stop()
    nodes.set_state(A, "catching-up")
    for _ in range(3):
        nodes.root.execute("insert into public.a select max(id) + 1, 'late' from public.a")
        nodes.root.execute("select pgq.force_tick('q')")
        nodes.root.execute("select pgq.ticker('q')")
    (item,) = json.loads(copy("status", "--json").out)["tables"]
    assert item["behind"]["ticks"] >= 3
    assert item["behind"]["events"] >= 3
    assert "events behind" in copy("status").out


_STATE = "select merge_state from londiste.table_info where table_name = 'public.a'"


def test_a_table_that_fails_shows_why(
    nodes: Nodes,
    copy: Copy,
) -> None:
    fill(nodes, A, 10)
    nodes.leaf.execute("alter table public.a add more int not null")
    nodes.add(A)
    nodes.start()
    wait_for(lambda: nodes.error(A), what="the reason to be stored")
    answer = copy("status")
    assert "failed, see below" in answer.out
    assert "column more does not exist on the source" in answer.err
    nodes.leaf.execute("alter table public.a drop more")
    nodes.wait_end()


def test_the_steps_of_a_finished_copy_stay_and_are_shown(
    nodes: Nodes,
    copy: Copy,
) -> None:
    assert copy("status", "--done").err.startswith("no table has been copied")
    fill(nodes, A)
    fill(nodes, B, 10)
    nodes.add(A, B)
    nodes.start()
    nodes.wait_end()
    assert copy("status").err.startswith("all tables are in sync")
    found = json.loads(copy("status", "--done", "--json").out)["steps"]
    of_a = {step["step"]: step for step in found if step["table"] == "public.a"}
    assert {"load", "indexes", "analyze", "catch-up", "hand-over"} <= of_a.keys()
    assert all(step["finished"] and step["seconds"] > 0 for step in found)
    assert of_a["load"]["rows"] == 3000
    assert of_a["load"]["tasks"] > 1
    assert of_a["load"]["bytes"] > 3000 * 100
    assert of_a["load"]["concurrency"] > 0
    shown = copy("status", "--done").out
    assert "public.b" in shown
    sums = [line.split()[:2] for line in shown.splitlines() if line.startswith("all ")]
    assert sums == [["all", name] for name in dict.fromkeys(step["step"] for step in found)]
    assert "public.b" not in copy("status", "--done", "public.a").out


def test_chunks_that_a_crash_has_taken_back_are_noticed(nodes: Nodes) -> None:
    nodes.add(A)
    with nodes.leaf.connect() as conn:
        attempt = attempts.copy_start(conn, "q", A, total_chunks=2)
        for chunk in range(2):
            # As a server leaves it that crashes before the second is on disk.
            with pytest.raises(TransientError, match=f"{chunk} of 2 are left"):
                progress.all_done(conn, "q", A, attempt)
            nodes.leaf.execute(
                "select londiste.copy_chunk_start('q', 'public.a', %s, %s)", attempt, chunk
            )
        progress.all_done(conn, "q", A, attempt)


def test_another_copy_of_a_table_forgets_the_steps_of_the_one_before(
    nodes: Nodes,
) -> None:
    fill(nodes, A, 10)
    nodes.add(A)
    nodes.start()
    nodes.wait_end()
    with nodes.leaf.connect() as conn:
        before = {s.step: s for s in step_timings.copy_steps(conn, "q")}
        step_timings.copy_step_start(conn, "q", A, step_timings.LOAD)
        (load,) = step_timings.copy_steps(conn, "q")
        assert not load.finished
        assert load.started_at > before["load"].started_at
        # What was interrupted goes on: its time counts from its beginning.
        step_timings.copy_step_start(conn, "q", A, step_timings.LOAD)
        assert step_timings.copy_steps(conn, "q")[0].started_at == load.started_at
        nodes.leaf.execute("select londiste.local_remove_table('q', 'public.a')")
        assert step_timings.copy_steps(conn, "q") == []


def test_what_is_no_command_is_a_table_to_copy(
    nodes: Nodes,
    copy: Copy,
) -> None:
    nodes.add(A)
    for args in (("a", "--dry-run"), ("--dry-run",), ("run", "public.a", "--dry-run")):
        answer = copy(*args)
        assert answer.out.startswith("1. public.a: empty it, copy all rows")
    for args in (("nothere",), ("run", "nothere"), ("status", "nothere")):
        unknown = copy(*args)
        assert unknown.code == 2
        assert "table public.nothere: not replicated on this node" in unknown.err


def test_watching_ends_when_every_table_is_in_step(
    nodes: Nodes,
    copy: Copy,
) -> None:
    nodes.add(A)
    nodes.start()
    nodes.wait_end()
    answer = copy("status", "--watch", "--json")
    assert answer.code == 0
    assert json.loads(answer.out.splitlines()[-1])["tables"] == []
