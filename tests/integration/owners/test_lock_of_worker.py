"""Code of a table's owner releases the lock of the worker in whose session it runs."""

from __future__ import annotations

import contextlib

import pytest

from londiste.cascade.model import NodeType
from londiste.consumer.source import QueueSource
from londiste.db import call
from londiste.db.advisory_lock import acquire_singleton_lock
from londiste.errors import NodeBusy
from londiste.pgq.types import Batch
from londiste.replication.worker.connections import WorkerProgress, own_node
from londiste.settings import WorkerSettings
from tests.fixtures.cluster import Database
from tests.fixtures.line import QUEUE, Line
from tests.fixtures.owners import OWNER, make_owner

TABLE = "create table public.t (id int primary key, v text)"
RELEASES = f"""
    create function public.releases() returns trigger language plpgsql as
        'begin perform pg_advisory_unlock_all(); return new; end';
    create trigger x before insert on public.t for each row execute function public.releases();
    alter table public.t enable always trigger x;
    alter table public.t owner to {OWNER}
"""


@pytest.mark.slow
def test_the_worker_has_its_lock_after_the_batch(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=TABLE)
    make_owner(root.database)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=f"{TABLE};{RELEASES}")
    for node in (root, leaf):
        line.add(node, "public.t", expect_sync=True)
    line.start(leaf)
    root.database.execute("insert into public.t values (1, 'a')")
    line.wait_position(leaf, line.tick())
    assert leaf.database.value("select count(*) from public.t") == 1
    with leaf.database.connect() as conn:
        held = acquire_singleton_lock(conn, f"worker {QUEUE}", patience=0)
    assert held is not None and "londiste worker" in held


def test_a_batch_fails_that_loses_the_lock_to_another_worker(
    pgq_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WorkerProgress.__base__, "completing", lambda self, batch: lambda: None)
    with pgq_db.connect(name="one") as one, pgq_db.connect(name="other") as other:
        call.expect_code(one)
        batch: Batch = None  # type: ignore[assignment]
        WorkerProgress(one, "q", "w").completed(batch)
        assert acquire_singleton_lock(other, "worker q", patience=0) is not None
        one.execute("select pg_advisory_unlock_all()")
        assert acquire_singleton_lock(other, "worker q", patience=0) is None
        with pytest.raises(NodeBusy, match="another worker"):
            WorkerProgress(one, "q", "w").completed(batch)


def test_a_lost_session_of_this_worker_is_not_another_one(
    pgq_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(acquire_singleton_lock.__kwdefaults__, "patience", 0)
    settings = WorkerSettings(queue_name="q", job_name="w", db=pgq_db.dsn)
    with own_node(settings) as lost:
        with pytest.raises(NodeBusy, match="lost session of this worker") as caught:
            own_node(settings)
        assert f"select pg_terminate_backend({lost.info.backend_pid})" in caught.value.hint
        assert "worker -s" not in caught.value.hint
        lost.execute("set application_name = 'londiste worker w 1@elsewhere'")
        with pytest.raises(NodeBusy, match="another worker runs"):
            own_node(settings)
    consumers = [QueueSource(pgq_db.dsn, "q", "c") for _ in range(2)]
    with contextlib.closing(consumers[0]), pytest.raises(NodeBusy, match="already") as caught:
        pid = consumers[0].conn.info.backend_pid
        consumers[1].conn  # noqa: B018 - opens it
    assert caught.value.hint.startswith("this very process has that session")
    assert f"select pg_terminate_backend({pid})" in caught.value.hint
