"""Advisory locks, which every role can take: the error names the session, and how to end it."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator

import psycopg
import pytest

from londiste.cli.queue import common
from londiste.db import connection, server_text
from londiste.install import apply
from tests.fixtures.cascade import CommandLine, Node, Nodes

LOW = "londiste_test_low"


@pytest.fixture
def root(nodes_of: Nodes) -> Node:
    node = nodes_of.root()
    node.db.execute("create table one (id int primary key, v text)")
    return node


@contextlib.contextmanager
def held(node: Node, key: str) -> Iterator[int]:
    """A session of a role without rights holds the lock; its server process."""
    node.db.execute(
        f"do $$ begin create role {LOW} login; exception when duplicate_object then null; end $$"
    )
    with contextlib.closing(psycopg.connect(node.dsn, user=LOW, autocommit=True)) as low:
        low.execute(f"select pg_advisory_lock({key})".encode())
        yield low.info.backend_pid


def names(text: str, pid: int) -> bool:
    """Whether an error names the session, and the statement that ends it."""
    return (
        f"the lock is held by server process {pid} of role {LOW}" in text
        and f"end that session: select pg_terminate_backend({pid})" in text
    )


def test_the_lock_of_a_capture(root: Node, londiste: CommandLine) -> None:
    key = "'londiste.table_info'::regclass::oid::int4, 'public.one'::regclass::oid::int4"
    with held(root, key) as pid:
        answer = londiste(root.db, "--set", "lock_timeout=0.3", "add-table", "one")
        assert answer.code == 6
        assert "table public.one stays locked" in answer.err
        assert names(answer.err, pid)
        # The hint is followed as printed.
        hint = re.search(r"select pg_terminate_backend\(\d+\)", answer.err)
        assert hint is not None
        root.db.execute(hint.group())
        assert londiste(root.db, "add-table", "one").code == 0


def test_the_lock_of_new_queues(
    root: Node, londiste: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = functools.partial(connection.session, lock_timeout_ms=300)
    monkeypatch.setattr(common, "session", quick)
    with held(root, "'pgq.queue'::regclass::oid::int4, 0") as pid:
        answer = londiste(root.db, "queue", "create", "another")
        assert answer.code == 6
        assert names(answer.err, pid)


def test_the_lock_of_installers(
    root: Node, londiste: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply, "SILENT_WAIT", "100ms")
    monkeypatch.setattr(apply, "WAIT_FOR_INSTALLER", "300ms")
    with held(root, str(apply.INSTALL_LOCK)) as pid:
        answer = londiste(root.db, "install")
    assert answer.code == 6
    assert "another session holds the lock of installers" in answer.err
    assert names(answer.err, pid)


def test_an_error_about_another_lock_asks_for_no_session() -> None:
    inside = 'SQL statement "update t"\nPL/pgSQL function f() line 3 at SQL statement\n'
    assert server_text.awaited("") is None
    assert server_text.awaited(inside + 'SQL function "_lock_capture" statement 1') is None
    assert server_text.awaited('SQL function "_lock_capture" statement 1\n' + inside) is not None
