"""A switchover whose new root fails before it accepts writes."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from typing import Any

import psycopg
import pytest

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType
from londiste.cascade.switching import operation_log, switchover
from londiste.cascade.switching.operation_log import OperationKind
from londiste.cascade.switching.steps.notes import Begin, Cancel, NodeAddress, Ticket
from londiste.cascade.switching.steps.roots import CloseRoot, Promote, ReopenRoot
from londiste.cascade.switching.steps.waits import CatchUp
from londiste.errors import AccessDenied, Deadlock, LockTimeout, NodeUnreachable, TransientError
from londiste.orchestration import steps
from londiste.orchestration.connections import Connections
from tests.fixtures.cascade import QUEUE, CommandLine, Node, Nodes
from tests.support import lines

#: The tick that node ``branch`` has.
POSITION = "select last_tick_id from pgq_node.local_state where consumer_name = 'w_branch'"


@dataclass(frozen=True)
class LetNobodyIn:
    """The server of a node is gone for this command."""

    node: Node

    def describe(self) -> str:
        return "the node is lost"

    def done(self, sites: Connections) -> bool:
        return False

    def run(self, sites: Connections) -> None:
        name = self.node.db.name
        with psycopg.connect(self.node.db.cluster.dsn("postgres"), autocommit=True) as conn:
            conn.execute(f'alter database "{name}" with allow_connections false')
            conn.execute(
                "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = %s",
                [name],
            )
        with sites.transaction(self.node.dsn) as conn:
            conn.execute("select 1")


@dataclass(frozen=True)
class Refused:
    """A statement that the server of a node refuses, with an error of the driver."""

    node: Node

    def describe(self) -> str:
        return "something is not allowed"

    def done(self, sites: Connections) -> bool:
        return False

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.node.dsn) as conn:
            conn.execute("do $$ begin raise insufficient_privilege; end $$")


@dataclass(frozen=True)
class Interrupted:
    """Ctrl-C."""

    def describe(self) -> str:
        return "the operator has enough"

    def done(self, sites: Connections) -> bool:
        return False

    def run(self, sites: Connections) -> None:
        raise KeyboardInterrupt


def _write(root: Node) -> str | None:
    try:
        root.db.execute("select pgq.insert_event(%s, 'x', 'y')", QUEUE)
    except psycopg.Error as error:
        return error.sqlstate
    return None


def test_a_new_root_that_lags_leaves_no_record(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    # No worker runs.
    root.tick()
    old, new, ticket = NodeAddress("root", root.dsn), NodeAddress("branch", branch.dsn), Ticket()
    switch = switchover.Switchover(
        before=[
            *(
                Begin(
                    at, QUEUE, OperationKind.SWITCHOVER, "root", "branch", ticket, from_node="root"
                )
                for at in (old, new)
            ),
            CatchUp(new, old, QUEUE, 0.1),
        ],
        closing=[CloseRoot(old, QUEUE, ticket)],
        promoting=Promote(new, QUEUE, ticket, lambda: 1),
        after=(),
        undo=(Cancel(new, QUEUE, ticket), ReopenRoot(old, QUEUE, ticket)),
        begun=False,
    )
    with pytest.raises(TransientError, match="does not have the present ticks of root") as raised:
        switchover.execute(switch, nodes_of.sites)
    assert "everything is undone" in raised.value.detail
    for node in (root, branch):
        assert operation_log.find(nodes_of.sites.at(node.dsn), QUEUE) is None, node.name
    assert _write(root) is None


def test_ctrl_c_before_writes_are_blocked_leaves_no_record(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    old, new, ticket = NodeAddress("root", root.dsn), NodeAddress("branch", branch.dsn), Ticket()
    begins = [
        Begin(at, QUEUE, OperationKind.SWITCHOVER, "root", "branch", ticket, from_node="root")
        for at in (old, new)
    ]
    switch = switchover.Switchover(
        before=[*begins, Interrupted()],
        closing=[CloseRoot(old, QUEUE, ticket)],
        promoting=Promote(new, QUEUE, ticket, lambda: 1),
        after=(),
        undo=(Cancel(new, QUEUE, ticket), ReopenRoot(old, QUEUE, ticket)),
        begun=False,
    )
    with pytest.raises(KeyboardInterrupt):
        switchover.execute(switch, nodes_of.sites)
    for node in (root, branch):
        assert operation_log.find(nodes_of.sites.at(node.dsn), QUEUE) is None, node.name
    assert _write(root) is None


def test_the_old_root_is_opened_when_the_new_one_is_lost_before_the_promotion(
    nodes_of: Nodes,
) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    old, new, ticket = NodeAddress("root", root.dsn), NodeAddress("branch", branch.dsn), Ticket()
    begins = [
        Begin(at, QUEUE, OperationKind.SWITCHOVER, "root", "branch", ticket, from_node="root")
        for at in (old, new)
    ]
    switch = switchover.Switchover(
        before=begins,
        closing=[CloseRoot(old, QUEUE, ticket), LetNobodyIn(branch)],
        promoting=Promote(new, QUEUE, ticket, lambda: 1),
        after=(),
        undo=(Cancel(new, QUEUE, ticket), ReopenRoot(old, QUEUE, ticket)),
        begun=False,
    )
    admin = branch.db.cluster.dsn("postgres")
    with Connections(name="test") as sites:
        for at in (old, new):
            sites.alone(at.dsn, at.name, QUEUE)
        with pytest.raises(NodeUnreachable) as told:
            switchover.execute(switch, sites)
        assert "the old root takes events again" in str(told.value.detail)
        assert _write(root) is None
        # Under way before: somebody else may be about to promote, so it stays closed.
        with psycopg.connect(admin, autocommit=True) as conn:
            conn.execute(f'alter database "{branch.db.name}" with allow_connections true')
        with pytest.raises(NodeUnreachable) as told:
            ticket.mine = False
            switchover.execute(replace(switch, begun=True), sites)
        assert "could not be opened again" in str(told.value.detail)
        assert _write(root) == "LD102"
        with psycopg.connect(admin, autocommit=True) as conn:
            conn.execute(f'alter database "{branch.db.name}" with allow_connections true')
        steps.execute(switch.undo, sites)
        assert _write(root) is None
        assert operation_log.find(sites.at(branch.dsn), QUEUE) is None


@dataclass(frozen=True)
class CloseAlone(CloseRoot):
    """The new root is lost while the old one is to be closed."""

    lost: Node

    def run(self, sites: Connections) -> None:
        with contextlib.suppress(NodeUnreachable):
            LetNobodyIn(self.lost).run(sites)
        super().run(sites)


def test_a_root_that_could_not_be_closed_is_not_said_to_be(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    old, new, ticket = NodeAddress("root", root.dsn), NodeAddress("branch", branch.dsn), Ticket()
    begins = [
        Begin(at, QUEUE, OperationKind.SWITCHOVER, "root", "branch", ticket, from_node="root")
        for at in (old, new)
    ]
    switch = switchover.Switchover(
        before=[],
        closing=[CloseAlone(old, QUEUE, ticket, branch)],
        promoting=Promote(new, QUEUE, ticket, lambda: 1),
        after=(),
        undo=(Cancel(new, QUEUE, ticket), ReopenRoot(old, QUEUE, ticket)),
        begun=True,
    )
    with (
        Connections(name="test", lock_timeout=0.2) as sites,
        psycopg.connect(root.dsn) as writer,
        psycopg.connect(root.dsn) as reader,
    ):
        steps.execute(begins, sites)
        # It was found under way, so the new root is asked first.
        ticket.mine = False
        reader.execute("select from pgq.event_template, pgq.queue")
        reader.execute(
            f"select from {root.db.value('select queue_data_pfx from pgq.queue')}".encode()
        )
        insert = "select pgq.insert_event(%s, 'x', 'open')"
        writer.execute(insert, [QUEUE])
        writer.execute("prepare transaction 'p2'")
        writer.execute(insert, [QUEUE])
        try:
            with pytest.raises(LockTimeout) as told:
                switchover.execute(switch, sites)
            with pytest.raises(LockTimeout) as alone:
                CloseRoot(old, QUEUE, ticket).run(sites)
        finally:
            root.db.execute("rollback prepared 'p2'")
        assert "writes continue at the old root, and the change" in told.value.detail
        assert "is closed" not in told.value.detail
        assert f"locked by a session of postgres, process {writer.info.backend_pid}" in (
            told.value.detail
        )
        assert f"process {reader.info.backend_pid}" not in told.value.detail
        assert f"select pg_terminate_backend({writer.info.backend_pid})" in alone.value.hint
        assert "rollback prepared 'p2'" in alone.value.hint
        assert _write(root) is None


@pytest.mark.parametrize(
    ("when", "condition", "raised"),
    [
        ("closing", "", AccessDenied),
        ("promoting", "insufficient_privilege", AccessDenied),
        ("promoting", "lock_not_available", LockTimeout),
        pytest.param("promoting", "deadlock_detected", Deadlock, marks=pytest.mark.slow),
        ("after", "", AccessDenied),
    ],
)
def test_what_the_server_refuses_while_nobody_can_write_is_undone(
    when: str, condition: str, raised: type[Exception], nodes_of: Nodes
) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    old, new, ticket = NodeAddress("root", root.dsn), NodeAddress("branch", branch.dsn), Ticket()
    begins = [
        Begin(at, QUEUE, OperationKind.SWITCHOVER, "root", "branch", ticket, from_node="root")
        for at in (old, new)
    ]
    closing = [CloseRoot(old, QUEUE, ticket)]
    switch = switchover.Switchover(
        before=begins,
        closing=[*closing, Refused(branch)] if when == "closing" else closing,
        # No worker runs: it is where it was made.
        promoting=Promote(new, QUEUE, ticket, lambda: int(branch.db.value(POSITION))),
        after=[Refused(root)],
        undo=(Cancel(new, QUEUE, ticket), ReopenRoot(old, QUEUE, ticket)),
        begun=False,
    )
    if when == "promoting":
        branch.db.execute(
            "create function refuse() returns trigger language plpgsql"
            f" as $$ begin raise {condition}; end $$;"
            "create trigger refuse before update of node_type on pgq_node.node_info"
            " for each row execute function refuse()"
        )
    with Connections(name="test") as sites:
        told: Any
        with pytest.raises(raised) as told:
            switchover.execute(switch, sites)
        if when == "after":
            assert "branch is the root" in str(told.value.detail)
            assert "repeat the command" in str(told.value.hint)
            assert (_write(root), _write(branch)) == ("LD102", None)
            return
        assert "the old root takes events again" in str(told.value.detail)
        assert (_write(root), _write(branch)) == (None, "LD102")
        for node in (root, branch):
            assert operation_log.find(sites.at(node.dsn), QUEUE) is None


def test_a_root_that_is_open_again_is_not_said_to_be_closed(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    switch = plain(NodeAddress("root", root.dsn), NodeAddress("branch", branch.dsn), branch)
    branch.db.execute(
        "create function refuse() returns trigger language plpgsql"
        " as $$ begin raise insufficient_privilege using hint = 'ask her'; end $$;"
        "create trigger refuse before delete on pgq_node.operation"
        " for each row execute function refuse()"
    )
    with Connections(name="test") as sites, pytest.raises(AccessDenied) as told:
        switchover.execute(replace(switch, closing=[*switch.closing, Refused(branch)]), sites)
    assert "closed" not in told.value.detail
    assert "the old root takes events again; node branch keeps the record: " in told.value.detail
    assert told.value.hint == (
        "ask her; then repeat the command, or undo it: londiste switchover --to branch --rollback"
    )
    assert _write(root) is None
    records = "select count(*) from pgq_node.operation"
    assert (root.db.value(records), branch.db.value(records)) == (0, 1)
    # The hint is true.
    branch.db.execute("drop trigger refuse on pgq_node.operation")
    assert londiste(root.db, *told.value.hint.split()[-4:]).code == 0
    assert branch.db.value(records) == 0
    assert _write(root) is None


def plain(old: NodeAddress, new: NodeAddress, branch: Node) -> switchover.Switchover:
    """A switchover of nobody else, to a branch that is in step."""
    ticket = Ticket()
    return switchover.Switchover(
        before=[
            Begin(at, QUEUE, OperationKind.SWITCHOVER, "root", "branch", ticket)
            for at in (old, new)
        ],
        closing=[CloseRoot(old, QUEUE, ticket)],
        promoting=Promote(new, QUEUE, ticket, lambda: int(branch.db.value(POSITION))),
        after=(),
        undo=(Cancel(new, QUEUE, ticket), ReopenRoot(old, QUEUE, ticket)),
        begun=False,
        block=0.2,
    )


def test_a_root_whose_answer_is_lost_when_it_closes_is_opened_soon(
    nodes_of: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    real = operation_log.close_root
    with (
        lines.Line(root.dsn) as line,
        Connections(name="test", lock_timeout=0.1, answer_seconds=20.0) as sites,
    ):

        def deafened(*args: Any) -> int:
            line.stall(deaf=True)
            return real(*args)

        monkeypatch.setattr(operation_log, "close_root", deafened)
        switch = plain(NodeAddress("root", line.dsn), NodeAddress("branch", branch.dsn), branch)
        with pytest.raises(NodeUnreachable, match=r"no complete answer for 2\.2 s") as told:
            switchover.execute(switch, sites)
        assert "the old root takes events again" in told.value.detail
    assert _write(root) is None


def test_a_promotion_whose_answer_is_lost_is_looked_up_in_a_new_session(
    nodes_of: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    real = operation_log.promote
    with lines.Line(branch.dsn) as line, Connections(name="test", answer_seconds=30) as sites:

        def deafened(*args: Any) -> None:
            monkeypatch.setattr(operation_log, "promote", real)
            line.stall(deaf=True)
            real(*args)

        monkeypatch.setattr(operation_log, "promote", deafened)
        switch = plain(NodeAddress("root", root.dsn), NodeAddress("branch", line.dsn), branch)
        began = time.monotonic()
        switchover.execute(switch, sites)
        assert time.monotonic() - began < 20
    with branch.connect() as conn:
        assert nodes.get_node_info(conn, QUEUE).type is NodeType.ROOT
