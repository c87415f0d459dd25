"""Steps that install the SQL for a command, and remove it at its end if it had installed it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import psycopg
from psycopg import sql

from londiste.cascade.commands.endpoint import Endpoint
from londiste.db.connection import Connection
from londiste.db.queries import translated
from londiste.install import apply, remove
from londiste.orchestration.connections import Connections


@dataclass(frozen=True)
class Install:
    """Installs the SQL of Londiste; marks it when there was none before.

    mark -- comment of the schema, by which the command knows that it may remove it.
    """

    side: Endpoint
    mark: str

    def describe(self) -> str:
        return f"{self.side.name}: install the SQL of the queue and of replication"

    def done(self, sites: Connections) -> bool:
        plans = apply.plan_for(sites.at(self.side.dsn))
        return not any(one.steps for one in plans)

    def run(self, sites: Connections) -> None:
        # Its tables are waited for longer than a silent server.
        with sites.at_length():
            self._install(sites.at(self.side.dsn))

    def _install(self, conn: Connection) -> None:
        if installed(conn):
            apply.install(conn)
        else:
            # Together, so that what a killed process leaves is known to be of this command.
            with translated(conn), conn.transaction():
                apply.install(conn)
                conn.execute(
                    sql.SQL("comment on schema londiste is {}").format(sql.Literal(self.mark))
                )
        if not administers(conn):
            # Who created the group roles may join them; others need an administrator.
            with contextlib.suppress(psycopg.Error), conn.transaction():
                conn.execute("grant londiste_writer to current_user")


@dataclass(frozen=True)
class Uninstall:
    """Drops the schemas that the command installed, if no other queue uses them."""

    side: Endpoint
    mark: str

    def describe(self) -> str:
        return f"{self.side.name}: remove the SQL of the queue and of replication"

    def done(self, sites: Connections) -> bool:
        conn = sites.at(self.side.dsn)
        return not marked(conn, self.mark) or bool(users(conn))

    def run(self, sites: Connections) -> None:
        with sites.at_length():
            remove.uninstall(sites.at(self.side.dsn))


def users(conn: Connection) -> list[str]:
    """What keeps the SQL in a database: queues and nodes, as sentences."""
    return remove.blockers(conn, remove.plan(conn), queues=True)


def installed(conn: Connection) -> bool:
    """Whether the SQL of the queue is in a database."""
    row = conn.execute("select pg_catalog.to_regnamespace('pgq') is not null").fetchone()
    return row is not None and bool(row[0])


def has_nodes(conn: Connection) -> bool:
    """Whether the SQL of nodes is in a database: it is installed after that of the queue."""
    row = conn.execute("select pg_catalog.to_regnamespace('pgq_node') is not null").fetchone()
    return row is not None and bool(row[0])


def administers(conn: Connection) -> bool:
    """Whether this user may write events that replication applies; True without group roles."""
    row = conn.execute(
        "select pg_catalog.pg_has_role(r.oid, 'usage') from pg_catalog.pg_roles r"
        " where r.rolname = 'pgq_admin'"
    ).fetchone()
    return row is None or bool(row[0])


def marked(conn: Connection, mark: str) -> bool:
    """Whether the schemas were installed with this mark."""
    row = conn.execute(
        "select pg_catalog.obj_description(pg_catalog.to_regnamespace('londiste')::oid,"
        " 'pg_namespace')"
    ).fetchone()
    return row is not None and row[0] == mark
