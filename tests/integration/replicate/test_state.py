"""State of the nodes of ``replicate``: events that no ticker serves are no sync."""

from __future__ import annotations

import sys
from contextlib import closing
from functools import partial

import pytest

from londiste.cascade.commands.endpoint import endpoint
from londiste.cascade.model import NodeType
from londiste.cli import cli
from londiste.cli.errors import run
from londiste.cli.setup import live_state
from londiste.cli.worker_once import run_once
from londiste.daemon.signals import Signals
from londiste.errors import StateError
from londiste.orchestration.connections import Connections
from londiste.orchestration.daemons import Daemons
from londiste.orchestration.daemons import Found as FoundDaemons
from londiste.replicate.asked import Asked
from londiste.replicate.databases import ReplicateSettings, identify
from londiste.replicate.state import NodeState, look, stop_waiting
from londiste.replication.worker.worker import Worker
from londiste.settings import WorkerSettings, load
from tests.fixtures.line import QUEUE, Line, LineNode
from tests.support.servers.kept_nodes import kept_nodes

SCHEMA = "create table a (id int primary key)"
STOPPED = (
    "select pgq.report_daemon('ticker', '', 'h', '', 'h', 1, '4', 1, 10, null, null, null, true)"
)


@kept_nodes
def _pair(line: Line) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    line.add(root, "a")
    line.add(leaf, "a")
    return root, leaf


def test_events_that_wait_for_a_dead_ticker_are_shown_and_are_no_sync(
    line: Line, capsys: pytest.CaptureFixture[str]
) -> None:
    root, leaf = _pair(line)
    source = endpoint("root", root.database.dsn, "root_worker")
    target = endpoint("leaf", leaf.database.dsn, "leaf_worker")
    line.tick()
    line.once(leaf)

    def state() -> NodeState:
        with Connections(name="test") as sites:
            return look(sites, QUEUE, source, [target])[1]

    assert state().in_sync
    # However long the commands of the test take.
    root.database.execute("update pgq.queue set queue_ticker_max_lag = '1 h'")
    line.tick()
    root.database.execute("insert into a select generate_series(1, 3)")
    older = (
        "update pgq.tick set tick_time = tick_time - interval '2 h'"
        " where tick_id = (select max(tick_id) from pgq.tick)"
    )
    events = "update pgq.event_template set ev_time = ev_time - interval '2 h'"
    status = ["replicate", source.dsn, target.dsn, "--queue", QUEUE, "--status"]
    # An event of this moment waits for the next tick as it should, also after idle hours.
    for change in ("select 1", older):
        root.database.execute(change)
        assert state().in_sync and not state().waiting
    root.database.execute(events)
    late = state()
    assert (late.waiting, late.events, late.in_sync, late.no_ticker) == (3, 0, False, False)
    assert 7200 <= late.tick_age < 7300
    capsys.readouterr()
    assert run(cli, status) == 3
    assert "about 3 events wait for a tick" in capsys.readouterr().out
    # The ticker ended as requested: that is known without the age of a tick.
    root.database.execute(older.replace("-", "+"))
    root.database.execute(events.replace("-", "+"))
    assert state().in_sync
    root.database.execute(STOPPED)
    assert not state().in_sync and state().no_ticker
    # With a tick they wait for the worker.
    line.tick()
    behind = state()
    assert (behind.waiting, behind.events, behind.in_sync) == (0, 3, False)
    line.once(leaf)
    assert state().in_sync


def test_a_pause_and_a_failed_script_wait_for_an_operator(line: Line) -> None:
    root, leaf = _pair(line)
    line.tick()
    line.once(leaf)
    target = endpoint("leaf", leaf.database.dsn, "leaf_worker")

    def told() -> tuple[str, str, str]:
        with Connections(name="test") as sites:
            source = endpoint("root", root.database.dsn, "root_worker")
            error = stop_waiting(look(sites, QUEUE, source, [target]), "again")
        assert error is not None and error.exit_code == 3
        return error.message, error.detail, error.hint

    continued = "an operator has to continue"
    pause = "select pgq_node.set_consumer_paused('line', 'leaf_worker', %s)"
    root.database.execute("insert into a values (1)")
    line.tick()
    leaf.database.execute(pause, True)
    hint = "londiste resume --node leaf; then again"
    assert told() == (f"{continued} the worker of leaf", "leaf: paused", hint)
    leaf.database.execute(pause, False)
    line.once(leaf)

    ticker = "select pgq.set_queue_config('line', 'ticker_paused', %s)"
    root.database.execute(ticker, "true")
    leaf.database.execute("update londiste.table_info set merge_state = 'catching-up'")
    message, detail, hint = told()
    assert message == f"{continued} the ticker of root"
    assert detail == "root: parameter ticker_paused of queue line is set"
    assert hint == "londiste queue config line ticker_paused=no; then again"
    root.database.execute(ticker, "false")
    leaf.database.execute("update londiste.table_info set merge_state = 'ok'")

    root.database.execute("insert into a values (2)")
    line.tick()
    leaf.database.execute(
        "select londiste.set_script_state('line', '7.sql', 'failed', 'batch', 'x', null, 1, 'no x')"
    )
    leaf.database.execute("select pgq_node.set_consumer_error('line', 'leaf_worker', 'no x')")
    message, detail, hint = told()
    assert (message, detail) == (f"{continued} script 7.sql on leaf", "no x")
    assert "londiste execute retry 7.sql" in hint and hint.endswith("; then again")


def test_a_worker_once_ends_when_an_operator_has_to_continue_its_copies(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    line.add(root, "a")
    assert line.here(leaf, "copy", "pause").code == 0
    line.add(leaf, "a", expect_sync=False)
    line.tick()
    # A copy process that does not end.
    stays = (sys.executable, "-c", "import signal; signal.pause()")
    with closing(Signals()) as signals, pytest.raises(StateError) as caught:
        run_once(Worker(lambda: load(WorkerSettings, leaf.config), signals, copy_argv=stays))
    error = caught.value
    assert error.message == "an operator has to continue the copy of table public.a to leaf"
    assert error.detail == "copies are paused"
    assert error.hint == "londiste copy resume; then the same command"


def test_a_worker_once_ends_below_a_branch_that_gets_no_tick(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a copy from another node, whose tick the branch does not reach."""
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    branch = line.node("branch", NodeType.BRANCH, root, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, branch, schema=SCHEMA)
    for node in (root, branch, leaf):
        line.add(node, "a")
    line.tick()
    for node in (branch, leaf):
        line.once(node)
    leaf.database.execute("update londiste.table_info set merge_state = 'wanna-sync:99'")
    monkeypatch.setattr("londiste.cli.worker_once._PATIENCE", 0.0)
    stays = (sys.executable, "-c", "import signal; signal.pause()")

    def error() -> tuple[str, str, str]:
        with closing(Signals()) as signals, pytest.raises(StateError) as caught:
            run_once(Worker(lambda: load(WorkerSettings, leaf.config), signals, copy_argv=stays))
        return caught.value.message, caught.value.detail, caught.value.hint

    message = "the copy of table public.a waits for the worker of branch, the provider"
    assert error() == (
        message,
        "worker: NOT RUNNING (never reported here)",
        "start it: londiste -c FILE worker (settings of node branch); then the same command",
    )
    pause = "select pgq_node.set_consumer_paused('line', 'branch_worker', true)"
    branch.database.execute(pause)
    assert error() == (message, "paused", "londiste resume --node branch; then the same command")


def test_a_column_that_the_target_lacks_is_not_in_sync(
    line: Line, capsys: pytest.CaptureFixture[str]
) -> None:
    root, leaf = _pair(line)
    line.tick()
    line.once(leaf)
    dsns = root.database.dsn, leaf.database.dsn
    found = identify(ReplicateSettings(queue_name=QUEUE), dsns[0], [dsns[1]])
    nobody = Daemons([], FoundDaemons, hint="")
    wait = partial(live_state.stay, [found], children=nobody, view=lambda *_: None)
    status = ["replicate", *dsns, "--queue", QUEUE, "--status"]
    with closing(Signals()) as signals:
        leaf.database.execute("alter table a rename id to old")
        with pytest.raises(StateError) as caught:
            wait(signals, until_sync="again")
        remedy = "with the settings of leaf: londiste columns public.a --add"
        assert caught.value.detail == (
            "leaf: table public.a does not store column id of the source: its values are lost"
        )
        assert caught.value.hint == f"{remedy}; then again"
        assert run(cli, status) == 3
        shown = capsys.readouterr()
        assert "leaf: in sync" not in shown.out
        assert "does not store column id of the source" in shown.out
        assert f"its values are lost; {remedy}\n" in shown.err
        leaf.database.execute("alter table a rename old to id")
        assert wait(signals, until_sync="again")
    assert run(cli, status) == 0


def test_a_lost_position_ends_the_wait_with_the_commands_that_find_it(
    line: Line, capsys: pytest.CaptureFixture[str]
) -> None:
    root, leaf = _pair(line)
    line.tick()
    line.once(leaf)
    root.database.execute("insert into a values (1)")
    newest = line.tick()
    root.database.execute("select pgq_node.unregister_subscriber('line', 'leaf')")
    register = "select pgq_node.register_subscriber('line', 'leaf', 'leaf_worker', %s)"
    root.database.execute(register, newest)
    dsns = root.database.dsn, leaf.database.dsn
    found = identify(ReplicateSettings(queue_name=QUEUE), dsns[0], [dsns[1]])
    asked = Asked(dsns[0], (dsns[1],), QUEUE)
    looks = 0

    def view(copies: object, lines: object) -> None:
        nonlocal looks
        looks += 1
        assert looks < 4
        if looks == 1:
            # The worker that the command has started.
            assert line.here(leaf, "worker", "--once").code == 3

    nobody = Daemons([], FoundDaemons, hint="")
    with closing(Signals()) as signals:
        wait = partial(live_state.stay, [found], signals, nobody, view, placed=asked.placed)
        with pytest.raises(StateError) as caught:
            wait(until_sync="again")
        assert caught.value.exit_code == 3
        assert caught.value.message == "an operator has to continue the worker of leaf"
        assert "its position at root is lost: the consumer was registered" in caught.value.detail
        steps = (
            f"if it runs in the background: {asked.repeated('--stop')};"
            f" {asked.repeated('--save', 'FILE')}, then Ctrl-C;"
            " londiste -c FILE --node leaf worker --rewind"
        )
        assert caught.value.hint == f"{steps}; then again"
        capsys.readouterr()
        status = ["replicate", *dsns, "--queue", QUEUE, "--status"]
        assert run(cli, status) == 3
        shown = capsys.readouterr()
        assert f"; hint: {steps}" in shown.out and "worker -s" not in shown.out
        assert line.here(leaf, "worker", "--rewind").code == 0
        line.once(leaf)
        looks = 1
        assert wait(until_sync="again")
        assert leaf.database.execute("select id from a") == [(1,)]

        # The source does not know the worker: it has tried nothing yet, and then it has.
        root.database.execute("select pgq.unregister_consumer('line', 'leaf_worker')")
        unknown = "the consumer is not registered any more"
        again = "londiste change-provider --provider root registers it again"
        for tried in (False, True):
            if tried:
                assert line.here(leaf, "worker", "--once").code == 3
            capsys.readouterr()
            assert run(cli, status) == 3
            shown = capsys.readouterr()
            assert unknown in shown.out and f"with the settings of leaf: {again}" in shown.out
        looks = 2
        with pytest.raises(StateError, match="the worker of leaf") as caught:
            wait(until_sync="again")
        assert caught.value.detail == f"leaf: its position at root is lost: {unknown}"
        line.start(leaf)
        assert line.here(leaf, "change-provider", "--provider", "root").code == 0
        line.tick()
        line.wait(lambda: run(cli, status) == 0, "the worker")


def test_a_position_that_a_restored_source_has_lost_is_shown_before_a_worker_runs(
    line: Line, capsys: pytest.CaptureFixture[str]
) -> None:
    root, leaf = _pair(line)
    line.tick()
    newest = line.tick()
    line.once(leaf)
    status = ["replicate", root.database.dsn, leaf.database.dsn, "--queue", QUEUE, "--status"]
    assert run(cli, status) == 0
    # The copy of the source from before that tick; then it goes on to another of its number.
    root.database.execute("delete from pgq.tick where tick_id = %s", newest)
    older = f"the newest tick of the queue is {newest - 1}: it is older than the data"
    for reason in (older, f"tick {newest} is another tick: created at "):
        capsys.readouterr()
        assert run(cli, status) == 3
        shown = capsys.readouterr().out
        assert f"position at root is lost: {reason}" in shown
        assert "londiste -c FILE --node leaf worker --rewind" in shown
        if reason == older:
            root.database.execute("select setval(queue_tick_seq, %s, false) from pgq.queue", newest)
            assert line.tick() == newest


def test_an_event_whose_cause_is_mended_is_tried_before_the_wait_ends(line: Line) -> None:
    root, leaf = _pair(line)
    line.tick()
    line.once(leaf)
    dsns = root.database.dsn, leaf.database.dsn
    found = identify(ReplicateSettings(queue_name=QUEUE), dsns[0], [dsns[1]])
    leaf.database.execute("alter table a add constraint c check (id > 1)")
    root.database.execute("insert into a values (1)")
    line.tick()
    assert line.here(leaf, "worker", "--once").code == 5
    codes: list[int] = []
    before: list[str | None] = []

    class Children(Daemons):
        def look(self) -> None:
            before.append(line.error(leaf))

    def view(copies: object, lines: object) -> None:
        assert len(codes) < 2
        codes.append(line.here(leaf, "worker", "--once").code)

    children = Children([], FoundDaemons, hint="")
    with closing(Signals()) as signals:
        wait = partial(live_state.stay, [found], signals, children, view, until_sync="again")
        # The worker has tried it, and stores its error.
        with pytest.raises(StateError, match="the worker of leaf") as caught:
            wait()
        assert "halted at event" in caught.value.detail and codes == [5, 5]
        leaf.database.execute("alter table a drop constraint c")
        codes.clear()
        before.clear()
        assert wait()
    assert codes[0] == 0 and before[0] is None
