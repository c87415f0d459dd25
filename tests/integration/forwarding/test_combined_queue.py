"""Combined queues: refused configurations, and errors that stop merging."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import pytest

from londiste.cli import cli
from londiste.cli.errors import run as run_command
from londiste.daemon.signals import Signals
from londiste.errors import CombinedClosed, EventError, StateError
from londiste.replication.worker import duties
from londiste.replication.worker.worker import Worker
from londiste.settings import WorkerSettings, load
from tests.fixtures.cluster import Server
from tests.fixtures.nodes import ret
from tests.fixtures.process import ROOT
from tests.support.scenarios.combined_cascade import ALL, PARTS, TABLES, Combined, kept_combined
from tests.support.servers.kept_nodes import Kept


@pytest.fixture
def combined(
    request: pytest.FixtureRequest, tmp_path: Path, cluster: Server, kept_worlds: Kept
) -> Iterator[Combined]:
    with kept_combined(tmp_path, cluster, kept_worlds, *getattr(request, "param", ())) as made:
        yield made


#: Where the sources are merged, with the tables at the first place.
MERGED = pytest.mark.parametrize("combined", [("first",)], indirect=True, ids=["merged"])
TWICE = pytest.mark.parametrize("combined", [("first", "second")], indirect=True, ids=["twice"])


#: ``refused("one@first", "resync", "t")``: what the command says when it ends with 3, or ``code``.
Refused: TypeAlias = Callable[..., str]


@pytest.fixture
def refused(combined: Combined, capsys: pytest.CaptureFixture[str]) -> Refused:
    def run(node: str, *args: str, code: int = 3) -> str:
        capsys.readouterr()
        assert run_command(cli, ["-c", str(combined.config(node)), *args]) == code
        said = capsys.readouterr().err
        assert "error:" in said and "hint:" in said
        return said

    return run


def _tick(combined: Combined, part: str) -> None:
    _tick_of(combined, part, part)


def _tick_of(combined: Combined, place: str, queue: str) -> None:
    combined.at[place].execute("select pgq.force_tick(%s)", queue)
    combined.at[place].execute("select pgq.ticker(%s)", queue)


def test_a_leaf_merges_only_where_that_can_work(
    combined: Combined, refused: Refused, capsys: pytest.CaptureFixture[str]
) -> None:
    one = ("--provider", combined.at["one"].dsn)
    for place in ("first", "second"):
        combined.configure("one", place)

    def make(place: str, *more: str) -> tuple[str, ...]:
        return ("create-leaf", place, combined.at[place].dsn, *one, *more)

    said = refused("one@first", *make("first", "--merge", "nothing"))
    assert "of queue nothing" in said or "queue nothing" in said
    said = refused("one@first", *make("first", "--merge", "one"), code=2)
    assert "cannot merge into itself" in said
    said = refused("one@second", *make("second", "--merge", ALL))
    assert "root first of queue all has no leaf of queue one" in said
    assert combined.at["second"].value("select count(*) from pgq_node.node_info") == 1
    assert combined.at["one"].value("select count(*) from pgq_node.subscriber_info") == 0
    combined.here("one@first", *make("first", "--merge", ALL))
    said = refused("one@first", *make("first", "--merge", "other"))
    assert "merges into all, not into other" in said
    said = refused("one@first", *make("first"))
    assert "--merge all" in said
    # Of the queue that it merges into the node stays, as long as the leaf is there.
    said = refused(f"{ALL}@second", "drop-node", "first")
    assert "node first is the root" in said and "londiste switchover --to second;" in said
    capsys.readouterr()
    combined.here("one@first", "node-info")
    assert "merge-leaf" in capsys.readouterr().out
    combined.here(f"{ALL}@first", "node-info")
    assert "combined-root" in capsys.readouterr().out
    combined.here("one@second", *make("second", "--merge", ALL))
    said = refused(f"{ALL}@first", "drop-node", "second")
    assert "node second: queues merge into queue all: one" in said


def test_a_stand_by_without_the_same_leaves_does_not_become_the_root(
    combined: Combined, refused: Refused, capsys: pytest.CaptureFixture[str]
) -> None:
    combined.merge("first")
    combined.merge("second", "one")
    combined.add_tables_at("first")
    combined.here(f"{ALL}@second", "add-table", "public.t", "public.log", "--expect-sync")
    said = refused(f"{ALL}@second", "switchover")
    assert "queue two, which merges into all, has no leaf on second" in said
    assert "table public.t of queue one is not replicated by its leaf on second" in said
    assert "create-leaf NAME --provider DSN --merge all" in said
    assert combined.kind("first") == "root"
    assert not combined.at["first"].value("select queue_disable_insert from pgq.queue")


def test_a_part_is_not_copied_into_what_the_stand_by_may_have(
    combined: Combined, refused: Refused, capsys: pytest.CaptureFixture[str]
) -> None:
    combined.merge("first")
    combined.merge("second")
    for part in PARTS:
        combined.here(f"{part}@{part}", "add-table", *TABLES)
    # The leaf of two has not heard of the table, and wants it later.
    combined.here("one@first", "add-table", "public.t")
    said = refused("two@first", "add-table", "public.t", "--no-merge")
    assert "is in combined queue all already" in said and "add-table public.t --merge-all" in said
    combined.at["first"].execute("select londiste.global_add_table('two', 'public.t')")
    answer = ret(
        combined.at["first"],
        "londiste.local_add_table",
        "two",
        "public.t",
        ["no_merge"],
        None,
        None,
    )
    assert answer[0] == 405 and "remove-table there first" in answer[1]
    said = refused("one@first", "add-table", "public.log", "--on-error", "log", code=2)
    assert "omit --on-error" in said
    # The combined root is not in step before its parts are.
    state = "select merge_state from londiste.get_table_list('all') where table_name = 'public.t'"
    assert combined.at["first"].value(state) == "in-copy"
    combined.at["first"].execute("update londiste.table_info set merge_state = 'ok' where local")
    assert combined.at["first"].value(state) == "ok"
    said = refused("one@first", "resync", "public.t")
    assert "the subscribers of all would not get them" in said
    # On the stand-by nothing is copied from a source, nor emptied.
    combined.at["second"].execute("insert into t values ('one', 1, 'here')")
    combined.here(f"{ALL}@second", "add-table", "public.t", "--expect-sync")
    combined.here("one@second", "add-table", "public.t", "--merge-all")
    assert combined.at["second"].value("select count(*) from t") == 1
    assert combined.states("second") == {"ok"}
    said = refused("one@second", "resync", "public.t")
    assert "reach this node through queue all" in said
    said = refused("one@second", "compare", "public.t")
    assert "is fed by combined queue all" in said


@TWICE
def test_a_table_that_only_the_leaf_of_the_stand_by_keeps_is_found(
    combined: Combined, refused: Refused, capsys: pytest.CaptureFixture[str]
) -> None:
    combined.here(f"{ALL}@second", "add-table", "public.t", "public.log", "--expect-sync")
    for part in PARTS:
        combined.here(f"{part}@second", "add-table", *TABLES)
    combined.here(f"{ALL}@second", "switchover", "--dry-run")
    # The first source is no longer merged, and the stand-by is forgotten.
    combined.here("one@first", "remove-table", "t")
    problem = "table public.t of queue one is replicated by its leaf on second only"
    mend = "with the settings of queue one on second: londiste remove-table public.t"
    said = refused(f"{ALL}@second", "switchover", "--dry-run")
    assert problem in said and mend in said
    said = refused(f"{ALL}@second", "takeover", "first", "--node", "second", "--dry-run")
    assert problem in said and mend in said
    for node, *how in (("one@second",), ("one@one", "--all-nodes")):
        capsys.readouterr()
        run_command(cli, ["-c", str(combined.config(node)), "check", "--json", *how])
        found = json.loads(capsys.readouterr().out)["findings"]
        (one,) = (one for one in found if one["kind"] == "merge-differs")
        assert problem in one["what"] and one["do"] == mend
    combined.here("one@second", "remove-table", "public.t")
    combined.here(f"{ALL}@second", "switchover", "--dry-run")


@TWICE
def test_a_script_of_the_sources_reaches_the_stand_by_once(
    combined: Combined, tmp_path: Path
) -> None:
    combined.here(f"{ALL}@second", "add-table", *TABLES, "--expect-sync")
    script = tmp_path / "wider.sql"
    script.write_text("alter table log add column more int default 1;\n")
    for number, part in enumerate(PARTS):
        combined.here(f"{part}@{part}", "execute", str(script))
        combined.at[part].execute("insert into log values (%s, 1, %s)", part, number)
        _tick(combined, part)
        with closing(_unit(combined, f"{part}@first")) as leaf:
            leaf.run_once()
    _tick_of(combined, "first", ALL)
    with closing(_unit(combined, f"{ALL}@second")) as branch:
        branch.run_once()
    for place in ("first", "second"):
        rows = combined.at[place].execute("select part, more from log order by part")
        assert rows == [("one", 0), ("two", 1)]
    # The leaves that wait follow to where the rows are, and no further.
    for part in PARTS:
        tick = combined.position(part, "first")
        assert combined.position(part, "second") == tick
        with closing(_unit(combined, f"{part}@second")) as leaf:
            leaf.run_once()
        query = "select last_tick from pgq.get_consumer_info(%s, %s)"
        assert combined.at[part].value(query, part, f"{part}_second") == tick
        known = combined.at["second"].execute(
            "select table_name from londiste.table_info where queue_name = %s order by 1", part
        )
        assert known == [("public.log",), ("public.t",)]


@TWICE
def test_a_part_from_which_nothing_comes_is_at_the_same_tick_on_the_new_root(
    combined: Combined, refused: Refused
) -> None:
    combined.here(f"{ALL}@second", "add-table", *TABLES, "--expect-sync")
    for part in PARTS:
        combined.here(f"{part}@second", "add-table", *TABLES)
    # As after a restore by hand: nobody has told the stand-by.
    combined.at["first"].execute(
        "update pgq_node.local_state set last_tick_id = 5 where queue_name = 'one'"
    )
    assert combined.position("one", "second") == 1
    combined.start(f"{ALL}@second")
    combined.here(f"{ALL}@second", "switchover")
    assert combined.kind("second") == "root"
    assert combined.position("one", "second") == combined.position("one", "first") == 5
    # A leaf that nobody tells anything is found to be elsewhere, and all is undone.
    combined.at["first"].execute(
        "update pgq_node.local_state set last_tick_id = 4 where queue_name = 'two';"
        " update pgq_node.node_info set combined_queue = null where queue_name = 'two'"
    )
    combined.start(f"{ALL}@first")
    said = refused(f"{ALL}@second", "switchover", "--to", "first", "--allow-data-loss")
    assert "at different ticks" in said
    assert "everything is undone" in said
    assert combined.kind("second") == "root"
    closed = "select queue_disable_insert from pgq.queue where queue_name = 'all'"
    assert combined.at["second"].value(closed) is False


def _unit(combined: Combined, node: str) -> Worker:
    """The worker of a node, to be driven unit by unit; the caller closes it."""
    return Worker(lambda: load(WorkerSettings, combined.config(node)), Signals())


@MERGED
def test_one_key_in_two_sources_stops_with_the_choices(
    combined: Combined, capsys: pytest.CaptureFixture[str]
) -> None:
    for part in PARTS:
        combined.at[part].execute("insert into t values ('both', 1, %s)", part)
        combined.at[part].execute("insert into log values (%s, 1)", part)
        _tick(combined, part)
    with closing(_unit(combined, "one@first")) as one, closing(_unit(combined, "two@first")) as two:
        one.run_once()
        with pytest.raises(EventError) as caught:
            two.run_once()
        error = caught.value
        assert "public.t" in error.message and "key (part, id)" in error.detail
        assert "also filled from queue one" in error.detail
        assert f"londiste events skip {error.event_id}" in error.hint
        assert "--no-merge" in error.hint and "resync" not in error.hint
        # The position stays, and neither the rows nor the combined queue have any of it.
        first = combined.at["first"]
        assert first.value("select count(*) from log where part = 'two'") == 0
        assert first.value("select v from t where part = 'both'") == "one"
        query = "select count(*) from pgq.event_1 where ev_extra1 = 'public.log'"
        assert first.value(query) == 1
        # As the page says: the source that is wrong gets another key, with no event of the old one.
        capsys.readouterr()
        combined.here("two@first", "events", "show", "--json")
        (failed,) = json.loads(capsys.readouterr().out)["events"]
        offered = {choice["command"]: choice["what"] for choice in failed["choices"]}
        assert not {word for word in ("resync", "change-policy", "compare") if word in str(offered)}
        (skip,) = (what for command, what in offered.items() if " skip " in command)
        assert "public.t of queue one" in skip and "replica" in skip and "replica" in error.hint
        page = (ROOT / "docs/howto/merge.md").read_text()
        printed = page.partition("**One key in two sources.**")[2].split("```")[1]
        statement = printed.removeprefix("sql").replace("orders", "t")
        statement = statement.replace("(id, region)", "(part, id)")
        statement = statement.replace("(1007, 'us')", "('two', 1007)")
        combined.at["two"].execute(statement.replace("id = 7", "part = 'both'"))
        _tick(combined, "two")
        combined.here("two@first", "events", "skip", str(error.event_id))
        two.run_once()
        two.run_once()
        rows = "select string_agg(part || id || coalesce(v, ''), ' ' order by id) from t"
        assert first.value(f"{rows} where part = 'both' or id = 1007") == "both1one two1007"
        assert first.value(query) == 2
        assert first.value(query.replace("log", "t")) == 2


@MERGED
def test_a_truncate_at_one_source_does_not_take_the_rows_of_the_other(
    combined: Combined, capsys: pytest.CaptureFixture[str]
) -> None:
    first = combined.at["first"]
    for part in PARTS:
        combined.at[part].execute("insert into log values (%s, 1)", part)
        _tick(combined, part)
    rows = "select string_agg(part || n, ' ' order by part, n) from log"
    events = "select count(*) from pgq.event_1 where ev_extra1 = 'public.log'"
    with closing(_unit(combined, "one@first")) as one, closing(_unit(combined, "two@first")) as two:
        one.run_once()
        two.run_once()
        # Folded, decoded, and together with another table.
        combined.at["one"].execute("truncate log; insert into t values ('one', 9, 'new')")
        combined.at["one"].execute("insert into log values ('one', 2)")
        _tick(combined, "one")
        before = combined.position("one", "first")
        with pytest.raises(EventError) as caught:
            one.run_once()
        error = caught.value
        assert "table public.log: TRUNCATE" in error.message
        assert "public.log of queue two" in error.detail
        assert f"londiste events skip {error.event_id}" in error.hint
        assert first.value(rows) == "one1 two1"
        assert combined.position("one", "first") == before
        assert first.value("select count(*) from t where id = 9") == 0
        capsys.readouterr()
        combined.here("one@first", "events", "show")
        said = capsys.readouterr().out
        assert "ignore_truncate=1" in said and "resync" not in said and "compare" not in said
        combined.here("one@first", "events", "skip", str(error.event_id))
        one.run_once()
        assert first.value(rows) == "one1 one2 two1"
        # What was left out is not in the combined queue either.
        assert first.value(events) == 3
        ignore = ("--handler", "londiste", "--handler-arg", "ignore_truncate=1")
        combined.here("one@first", "change-handler", "public.log", *ignore)
        combined.at["one"].execute("truncate log; insert into log values ('one', 3)")
        _tick(combined, "one")
        one.run_once()
        assert first.value(rows) == "one1 one2 one3 two1"
        assert first.value(events) == 4
        # A table that one source fills alone is emptied.
        combined.here("two@first", "remove-table", "public.t")
        combined.at["one"].execute("truncate t")
        _tick(combined, "one")
        one.run_once()
        assert first.value("select count(*) from t where part = 'one'") == 0


@MERGED
def test_a_leaf_whose_combined_queue_is_gone_stops(combined: Combined) -> None:
    answer = ret(combined.at["first"], "pgq_node.drop_node", ALL, "first")
    assert answer[:2] == (405, "Queues merge into all here: one, two")
    for table in ("local_state", "subscriber_info", "node_info"):
        combined.at["first"].execute(f"delete from pgq_node.{table} where queue_name = 'all'")
    combined.at["one"].execute("insert into log values ('one', 1)")
    _tick(combined, "one")
    with closing(_unit(combined, "one@first")) as one, pytest.raises(StateError) as caught:
        one.run_once()
    assert "merges queue one into all, which is not a queue of this database" in str(caught.value)
    assert combined.at["first"].value("select count(*) from log") == 0


@MERGED
def test_a_closed_combined_queue_takes_all_of_a_batch_or_nothing(
    combined: Combined, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = combined.at["first"]
    first.execute("update pgq.queue set queue_disable_insert = true")
    combined.at["one"].execute("insert into log values ('one', 1)")
    _tick(combined, "one")
    before = combined.position("one", "first")
    count = "select count(*) from pgq.event_1"
    events = first.value(count)
    with closing(_unit(combined, "one@first")) as one:
        for _ in range(3):
            one.unit()
        assert combined.position("one", "first") == before
        assert first.value("select count(*) from log") == 0
        assert first.value(count) == events
        # As an error only when it lasts.
        monkeypatch.setattr(duties, "CLOSED_PATIENCE", 0.0)
        with pytest.raises(CombinedClosed):
            one.unit()
        first.execute("update pgq.queue set queue_disable_insert = false")
        one.run_once()
    assert combined.position("one", "first") > before
    assert first.value("select count(*) from log") == 1
    last = first.execute("select ev_type, ev_extra1 from pgq.event_1 order by ev_id desc limit 2")
    assert last == [("pgq.tick-id", "one"), (last[1][0], "public.log")]
