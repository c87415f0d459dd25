"""Nodes made with plain SQL, for tests of the SQL itself."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from tests.fix_cluster import Database


def ret(db: Database, function: str, *args: Any) -> tuple[Any, ...]:
    """Calls a function that answers (ret_code, ret_note, …); 4xx rolls back, as clients do."""
    statement = sql.SQL("select * from {}({})").format(
        sql.Identifier(*function.split(".")), sql.SQL(", ").join([sql.Placeholder()] * len(args))
    )
    with psycopg.connect(db.dsn) as conn:
        row = conn.execute(statement, args).fetchone()
        assert row is not None
        if row[0] >= 400:
            conn.rollback()
        return row


def make_root(db: Database, queue: str = "q", name: str = "n1", worker: str = "w1") -> None:
    """The database becomes a root."""
    _fine(ret(db, "pgq_node.register_location", queue, name, f"dbname={name}", False))
    _fine(ret(db, "pgq_node.create_node", queue, "root", name, worker, None, None, None))


def make_leaf(db: Database, queue: str = "q", *, tick: int = 1, kind: str = "leaf") -> None:
    """The database becomes node n2 below a node n1 that it has never met."""
    for name in ("n1", "n2"):
        _fine(ret(db, "pgq_node.register_location", queue, name, f"dbname={name}", False))
    _fine(ret(db, "pgq_node.create_node", queue, kind, "n2", "w2", "n1", tick, None))


def make_branch(db: Database, queue: str = "q", *, tick: int = 1) -> None:
    """The same as a branch."""
    make_leaf(db, queue, tick=tick, kind="branch")


def _fine(answer: tuple[Any, ...]) -> None:
    assert answer[0] < 300, answer
