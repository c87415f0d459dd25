"""Status tells that a worker lives which cannot open the session in which it applies batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from londiste.cascade.daemons import Life
from londiste.cascade.model import NodeType
from londiste.daemon.signals import Signals
from londiste.errors import AccessDenied, LondisteError
from londiste.monitor import status
from londiste.replication.worker.worker import Worker
from londiste.settings import WorkerSettings, load
from tests.fixtures.line import QUEUE, Line

ROLE = "worker_without_session"


@pytest.fixture
def role(line: Line) -> Iterator[str]:
    """May work on the node, and set session_replication_role until that is revoked."""
    root = line.node("root", NodeType.ROOT, schema="create table t (id int primary key)")
    db = root.database
    if int(db.value("select current_setting('server_version_num')")) < 150000:
        pytest.skip("only superusers set it")
    db.execute(
        f"create role {ROLE} login; grant londiste_writer to {ROLE};"
        f" grant set on parameter session_replication_role to {ROLE}"
    )
    yield ROLE
    for node in line.nodes.values():
        node.database.execute(f"reassign owned by {ROLE} to current_user; drop owned by {ROLE}")
    db.execute(f"drop role {ROLE}")


def test_a_worker_that_may_not_open_its_session_is_no_worker_to_start(
    line: Line, role: str
) -> None:
    root = line.nodes["root"]
    leaf = line.node("leaf", NodeType.LEAF, root, schema="create table t (id int primary key)")
    line.add(root, "t")
    line.add(leaf, "t")
    leaf.database.execute(
        f"alter table t owner to {role}; revoke execute on function"
        " londiste.set_session_replication_role(text, boolean) from londiste_writer"
    )
    own = leaf.database.dsn
    line.configure(leaf, db=f"{own} user={role}")

    def seen() -> status.NodeStatus:
        return status.collect(own, QUEUE).node("leaf")

    with (
        closing(Signals()) as signals,
        closing(Worker(lambda: load(WorkerSettings, leaf.config), signals)) as worker,
    ):
        worker._start()
        root.database.execute("insert into t values (0)")
        line.tick()
        while worker.unit():
            pass
        leaf.database.execute(f"revoke set on parameter session_replication_role from {role}")
        root.database.execute("insert into t values (1)")
        line.tick()
        # The session is there, and may not do it any more.
        with pytest.raises(LondisteError) as refused:
            worker.unit()
        assert isinstance(refused.value, AccessDenied), refused.value
        assert f'session_replication_role to "{role}"' in refused.value.hint
        worker._recover(refused.value)
        leaf.database.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = %s", role
        )
        for _ in range(3):
            with pytest.raises(LondisteError) as refused:
                worker.unit()
            worker._recover(refused.value)
        assert isinstance(refused.value, AccessDenied), refused.value
        line_of = seen().worker
        assert line_of is not None
        assert line_of.life is Life.ALIVE
        assert f"FAILING: user {role} may not set session_replication_role" in line_of.text
        leaf.database.execute(f"grant set on parameter session_replication_role to {role}")
        while worker.unit():
            pass
        line_of = seen().worker
        assert line_of is not None
        assert (line_of.life, line_of.error) == (Life.ALIVE, "")
    leaf.database.execute(f"revoke set on parameter session_replication_role from {role}")
    with (
        closing(Signals()) as signals,
        closing(Worker(lambda: load(WorkerSettings, leaf.config), signals)) as worker,
    ):
        with pytest.raises(AccessDenied):
            worker.run()
    told = [text for source, text in seen().errors if source == "leaf_worker"]
    assert told, seen().errors
    assert f"user {role} may not set session_replication_role" in told[0]
