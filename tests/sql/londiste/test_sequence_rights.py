"""Sequences that the role of the worker may not read."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest
from psycopg import conninfo

from londiste.daemon.signals import Signals
from londiste.errors import from_database
from londiste.replication.worker import duties
from londiste.replication.worker.worker import Worker
from londiste.settings import WorkerSettings, load
from londiste.ticker import maintenance
from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_root, ret

GRANT = 'grant select, update on sequence public."S 1" to londiste_writer'


@pytest.fixture
def root(pgq_db: Database) -> Database:
    """A root with two sequences, both due, the first of which its worker may not read."""
    make_root(pgq_db)
    pgq_db.execute('create sequence "S 1"; create sequence s2')
    for name in ("S 1", "s2"):
        ret(pgq_db, "londiste.local_add_seq", "q", name)
    pgq_db.execute("grant usage on sequence s2 to londiste_writer")
    pgq_db.execute("select setval('\"S 1\"', 50000), setval('s2', 50000)")
    return pgq_db


def test_a_round_of_maintenance_looks_at_the_sequences_once(
    root: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "londiste")
    for user in ("postgres", "londiste_writer"):
        caplog.clear()
        with root.connect(autocommit=True) as conn:
            conn.execute(f"set role {user}".encode())
            maintenance.run_once(conn)
        assert "continued in the next round" not in caplog.text
        hidden = 'may not read sequence public."S 1"; hint: as an administrator: ' + GRANT
        assert (hidden in caplog.text) == (user != "postgres")


def test_others_are_published_and_it_is_named(root: Database) -> None:
    published = "select last_value from londiste.seq_info order by nr"
    with root.connect() as conn:
        conn.execute("set role londiste_writer")
        error = duties.check_sequences(conn, "q")
        assert error is not None
        assert error.message == 'role londiste_writer may not read sequence public."S 1"'
        assert error.hint == f"as an administrator: {GRANT}"
        assert root.execute(published) == [(30001,), (80000,)]
        root.execute(GRANT)
        assert duties.check_sequences(conn, "q") is None
    assert root.execute(published) == [(80000,), (80000,)]


@pytest.mark.parametrize("used", [True, False])
def test_a_switchover_is_refused_with_the_same_hint(root: Database, used: bool) -> None:
    root.execute("select setval('\"S 1\"', 50000, %s)", used)
    with root.connect() as conn:
        conn.execute("set role londiste_writer")
        with pytest.raises(psycopg.errors.InsufficientPrivilege) as error:
            conn.execute("select * from londiste.root_exact_seqs('q')")
    assert from_database(error.value).hint == f"as an administrator: {GRANT}"
    assert root.value("select count(*) from londiste.seq_info where exact") == 0


def test_one_that_cannot_be_moved_is_named(root: Database) -> None:
    root.execute('grant usage on sequence "S 1" to londiste_writer')
    with root.connect() as conn:
        conn.execute("set role londiste_writer")
        move = "select londiste._seq_move('S 1', 60000, null, false, false)"
        with pytest.raises(psycopg.errors.InsufficientPrivilege) as error:
            conn.execute(move)
        assert from_database(error.value).hint == f"as an administrator: {GRANT}"
        root.execute(GRANT)
        conn.execute(move)
    assert root.value('select last_value from "S 1"') == 60000


def test_the_worker_goes_on_and_stores_the_grant(root: Database) -> None:
    dsn = conninfo.make_conninfo(root.dsn, options="-c role=londiste_writer")
    settings = load(WorkerSettings, None, {"db": dsn, "queue_name": "q", "job_name": "w1"})
    stored = "select cur_error from pgq_node.local_state"
    with closing(Signals()) as signals:
        Worker(lambda: settings, signals).run_once()
        assert str(root.value(stored)).endswith(f"hint: as an administrator: {GRANT}")
        root.execute(GRANT)
        Worker(lambda: settings, signals).run_once()
    assert root.value(stored) is None
