"""Rows about daemons belong to the role that reports; no other role forges or changes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.fixtures.cluster import Database

ROLES = {"daemon": "pgq_admin", "other": "pgq_admin", "owner": "pgq_reader", "reader": "pgq_reader"}
#: A ticker of another test may look into all databases of the server.
HERE = "pgq.get_daemons('q') where host in ('h', 'host', 'here', 'elsewhere')"
REPORT = "select pgq.report_daemon(%s, %s, %s, '', %s, 7, '4.1', 60, 10, %s, null, 0.5, false)"


@pytest.fixture
def queue(pgq_db: Database) -> Iterator[Database]:
    for role, of in ROLES.items():
        pgq_db.execute(f"create role {role}_{pgq_db.name} in role {of}")
    pgq_db.execute("select pgq.create_queue('q')")
    as_role(pgq_db, "owner", "select pgq.register_consumer('q', 'c')")
    yield pgq_db
    for role in ROLES:
        pgq_db.execute(f"drop owned by {role}_{pgq_db.name}; drop role {role}_{pgq_db.name}")


def as_role(database: Database, role: str, statement: str, *values: Any) -> Any:
    with database.connect() as conn:
        conn.execute(f"set session authorization {role}_{database.name}")
        return conn.execute(statement.encode(), values or None).fetchone()


def rows(database: Database) -> list[tuple[Any, ...]]:
    with database.connect() as conn:
        return conn.execute(
            f"select kind, queue_name, daemon_name, role_name, host from {HERE}"
        ).fetchall()


def test_a_daemon_that_has_done_nothing_does_not_seem_to(pgq_db: Database) -> None:
    pgq_db.execute("select pgq.create_queue('q')")
    report = (
        "select pgq.report_daemon('worker', 'q', 'w', '', 'h', 7, '4.1', 60, 10, {idle},"
        " {seconds}, {seconds}, false)"
    )
    found = f"select worked_age, fetch_seconds, apply_seconds from {HERE}"
    pgq_db.execute(report.format(idle="null", seconds="null"))
    assert pgq_db.execute(found) == [(None, None, None)]
    # Numbers that JSON does not have.
    for value, kept in (("'NaN'", 1e9), ("'Infinity'", 1e9), ("'-Infinity'", 0.0), ("-1", 0.0)):
        pgq_db.execute(report.format(idle=1, seconds=value))
        assert pgq_db.execute(found)[0][1:] == (kept, kept)
    # The last batch stays known while the daemon is idle.
    pgq_db.execute(report.format(idle="null", seconds="null"))
    assert pgq_db.execute(found)[0][0] > 0.9


def test_a_role_reports_for_what_it_may_run(queue: Database) -> None:
    as_role(queue, "daemon", REPORT, "worker", "q", "w", "host", 2.0)
    as_role(queue, "daemon", REPORT, "ticker", "", "host", "host", 2.0)
    as_role(queue, "owner", REPORT, "consumer", "q", "c", "host", None)
    daemon, owner = f"daemon_{queue.name}", f"owner_{queue.name}"
    assert rows(queue) == [
        ("consumer", "q", "c", owner, "host"),
        ("ticker", "", "host", daemon, "host"),
        ("worker", "q", "w", daemon, "host"),
    ]
    # Two reports in one session are one row.
    with queue.connect() as conn:
        first = conn.execute(REPORT, ["worker", "q", "v", "here", None]).fetchone()
        again = conn.execute(REPORT, ["worker", "q", "v", "here", None]).fetchone()
        assert (first, again) == ((True,), (False,))
        found = conn.execute(
            "select has_session, seen_age < 5, session_age is not null"
            " from pgq.get_daemons('q') where daemon_name = 'v'"
        ).fetchall()
        assert found == [(True, True, True)]
    gone = "select has_session from pgq.get_daemons('q') where daemon_name = 'w'"
    assert queue.value(gone) is False


@pytest.mark.parametrize("kind", ["worker", "ticker", "copy", "consumer", "lake"])
def test_no_role_reports_for_a_daemon_that_it_could_not_run(queue: Database, kind: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_role(queue, "reader", REPORT, kind, "q", "c", "evil", 0.0)
    assert rows(queue) == []


def test_a_row_is_changed_by_its_role_alone(queue: Database) -> None:
    as_role(queue, "daemon", REPORT, "worker", "q", "w", "host", 2.0)
    # Even an administrator has a row of its own.
    as_role(queue, "other", REPORT, "worker", "q", "w", "elsewhere", 2.0)
    assert [(row[3], row[4]) for row in rows(queue)] == [
        (f"daemon_{queue.name}", "host"),
        (f"other_{queue.name}", "elsewhere"),
    ]
    for statement in (
        "delete from pgq.daemon",
        "update pgq.daemon set dm_seen = now()",
        "insert into pgq.daemon select * from pgq.daemon",
        "truncate pgq.daemon",
        "select * from pgq.daemon",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_role(queue, "other", statement)


def test_an_unknown_kind_and_an_unregistered_consumer_leave_no_row(queue: Database) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        as_role(queue, "owner", REPORT, "anything", "q", "c", "host", 0.0)
    assert as_role(queue, "owner", REPORT, "consumer", "q", "nobody", "host", 0.0) == (False,)
    as_role(queue, "owner", REPORT, "consumer", "q", "c", "host", 0.0)
    as_role(queue, "owner", "select pgq.unregister_consumer('q', 'c')")
    assert rows(queue) == []


def test_reports_stay_in_their_page(queue: Database) -> None:
    with queue.connect() as conn:
        conn.autocommit = True
        position = "select (pg_current_wal_insert_lsn() - '0/0')::int8"
        conn.execute(REPORT, ["worker", "q", "w", "host", 1.0])
        before = conn.execute(position).fetchone()
        for _ in range(200):
            conn.execute(REPORT, ["worker", "q", "w", "host", 1.0])
        after = conn.execute(position).fetchone()
        # Others write, too, in this time; a report is 280 bytes.
        assert before is not None
        assert after is not None
        assert after[0] - before[0] < 200 * 1000
        assert conn.execute("select pg_relation_size('pgq.daemon')").fetchone() == (8192,)
