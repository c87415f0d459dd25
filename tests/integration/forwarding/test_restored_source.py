"""A source of a combined queue is restored: every hint is followed until the rows are there."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from londiste.cli import cli
from londiste.cli.errors import run as run_command
from londiste.db.names import TableName
from londiste.replication.commands.merged_tables import described
from tests.fixtures.cluster import Server
from tests.support.scenarios.combined_cascade import ALL, PARTS, TABLES, Combined, kept_combined
from tests.support.servers.kept_nodes import Kept

T, LOG = (TableName.parse(name) for name in TABLES)


@pytest.fixture
def combined(
    request: pytest.FixtureRequest, tmp_path: Path, cluster: Server, kept_worlds: Kept
) -> Iterator[Combined]:
    with kept_combined(tmp_path, cluster, kept_worlds, *getattr(request, "param", ())) as made:
        yield made


def _refused(combined: Combined, capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """What a command of the leaf of queue one says when it is refused."""
    capsys.readouterr()
    assert run_command(cli, ["-c", str(combined.config("one@first")), *args]) == 3
    return capsys.readouterr().err


def _hint(said: str) -> list[str]:
    (line,) = (line for line in said.splitlines() if line.startswith("hint: "))
    return line.removeprefix("hint: ").split("; ")


def _follow(combined: Combined, steps: list[str]) -> None:
    """Runs the commands of a hint, each where it says."""
    for step in steps:
        where, found, call = step.partition("londiste ")
        if not found:
            assert step == "start the worker"
            combined.start("one@first")
            continue
        nodes = ["one@first"]
        if f"settings of queue {ALL}" in where:
            nodes = [f"{ALL}@first"]
        elif "leaf of each part" in where:
            nodes = [f"{part}@first" for part in PARTS]
        elif f"subscribers of {ALL}" in where:
            nodes = [f"{ALL}@second"]
        else:
            assert call.startswith("-c "), "to be pasted"
            call = call.split(" ", 2)[2]
        for node in nodes:
            argv = ["-c", str(combined.config(node)), *shlex.split(call)]
            # The worker of a subscriber may have to apply the removal first.
            codes = (0, 6) if node == f"{ALL}@second" else (0,)
            combined.wait(lambda argv=argv, codes=codes: _ended(argv, codes) == 0, call)


def _ended(argv: list[str], accepted: tuple[int, ...]) -> int:
    code = run_command(cli, argv)
    assert code in accepted, argv
    return code


def _set_back(combined: Combined) -> None:
    """Gives the source another history from before the position of its leaf, and new rows."""
    one = combined.at["one"]
    tick = combined.position("one", "first")
    one.execute(
        "update pgq.tick set tick_time = tick_time - interval '1 s' where tick_id = %s", tick
    )
    one.execute("delete from t where id = 2; insert into t values ('one', 100, 'new')")


@pytest.mark.slow
def test_the_hints_of_a_restored_source_end_with_its_rows(
    combined: Combined, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in ("first", "second"):
        combined.merge(place)
    combined.start_ticker()
    combined.add_tables()
    combined.start()
    combined.wait_sync()
    combined.wait_even()
    assert combined.stop("one@first") == 0
    _set_back(combined)
    combined.start("one@first")
    lost = "select count(*) from pgq.lost_position where lp_queue = 'one'"
    combined.wait(lambda: combined.at["first"].value(lost) == 1, "the loss is noted")
    assert combined.stop("one@first") == 0

    steps = _hint(_refused(combined, capsys, "worker", "--rewind"))
    assert steps == _hint(_refused(combined, capsys, "worker", "--rewind", "--force-resync"))
    # In another order the rows stay: nothing is emptied for a copy that would not come.
    for node in (f"{ALL}@first", *(f"{part}@first" for part in PARTS)):
        combined.here(node, "remove-table", "t")
    rows = "select count(*) from t"
    before = combined.at["first"].value(rows)
    said = _refused(combined, capsys, "add-table", "t", "--merge-all")
    assert "worker of queue one has lost its position" in said
    assert "londiste -c" in said and "worker --rewind" in said
    assert combined.at["first"].value(rows) == before > 0

    steps = _hint(_refused(combined, capsys, "worker", "--rewind"))
    assert "public.log" in steps[0] and "public.t" not in steps[0]
    _follow(combined, steps)
    combined.here("one@first", "add-table", "t", "--merge-all")
    combined.here(f"{ALL}@second", "add-table", "t")
    combined.wait_sync()
    combined.assert_equal()
    assert combined.at["first"].value("select v from t where id = 100") == "new"
    # From then on as before, also with the roles exchanged.
    combined.at["one"].execute("insert into t values ('one', 101, 'newer')")
    combined.assert_equal()
    combined.run(f"{ALL}@second", "switchover", "--block", "60")
    combined.at["one"].execute("insert into t values ('one', 102, 'newest')")
    combined.assert_equal()


@pytest.mark.parametrize("combined", [("first", "second")], indirect=True, ids=["twice"])
def test_the_hint_for_a_source_that_is_added_later_can_be_followed(
    combined: Combined, capsys: pytest.CaptureFixture[str]
) -> None:
    combined.here(f"{ALL}@second", "add-table", *TABLES, "--expect-sync")
    combined.here("one@first", "remove-table", "t", "log")
    combined.here("two@first", "remove-table", "log")
    state = "select merge_state, table_attrs from londiste.get_table_list('one')"
    state += " where table_name = %s"
    for table in (T, LOG):
        steps = _hint(_refused(combined, capsys, "add-table", str(table), "--no-merge"))
        assert steps.pop().endswith(f"subscribers of {ALL}: londiste add-table {table}")
        _follow(combined, steps)
        ((copied, attrs),) = combined.at["first"].execute(state, str(table))
        assert copied is None and ("skip_truncate" in (attrs or "")) == (table == T)


def test_tables_of_one_source_are_added_for_it_alone() -> None:
    assert described([T, LOG], [T], None, lost=True).split("; ") == [
        "with the settings of the leaf of each part: londiste remove-table public.t",
        "londiste remove-table public.log",
        "londiste worker --rewind --force-resync",
        "start the worker",
        "londiste add-table public.t --merge-all",
        "londiste add-table public.log --no-merge",
    ]
    assert described([LOG], [], "all", lost=False, changed=True).split("; ") == [
        "with the settings of queue all: londiste remove-table public.log",
        "londiste remove-table public.log",
        "londiste add-table public.log --no-merge",
        "with the settings of the subscribers of all: londiste add-table public.log",
        "give add-table the options that londiste tables -v shows before",
    ]
