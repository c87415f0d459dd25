"""Adoption of the schemas of Londiste 3 and PgQ extensions, in place.

Rows, ids and triggers stay.  The extensions release their objects.  The queue tables equal those of
version 4.0 and are upgraded.  Rows of the cascade and of replication move into new tables.
Functions are replaced under their names, so triggers, workers and consumers that call them keep
working.

All of it is one transaction: what fails leaves the extensions as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import psycopg
from psycopg import sql

from londiste.db.connection import Connection
from londiste.db.queries import query, translated
from londiste.errors import InstallError, from_database
from londiste.install import apply, ledger, locks, sampled, source
from londiste.install.ledger import Installed
from londiste.install.plan import PlanStep, plan
from londiste.install.source import Component

#: The extensions that are taken over, each before those it requires, as DROP EXTENSION wants it.
_TAKEN = ("londiste", "pgq_coop", "pgq_node", "pgq_ext", "pgq")
#: Their tables become ours by upgrades; of the others the rows move.
_UPGRADED = "pgq"
#: What the ledger says of tables that others made: older than all upgrades.
_BEFORE_ALL = "3.0.0"


def found(conn: Connection) -> list[str]:
    """The extensions in this database that ``adopt`` adopts, in its order.

    Raises InstallError.
    """
    with translated(conn):
        rows = conn.execute(query("extensions"), {"names": list(_TAKEN)}).fetchall()
    have = {name for (name,) in rows}
    return [name for name in _TAKEN if name in have]


def require_owners(conn: Connection, extensions: Sequence[str]) -> None:
    """Raises NotTrusted if a role that is not trusted could change a schema of these."""
    if extensions:
        apply.require_owners(conn, source.select(source.load(), extensions))


def grants(conn: Connection, extensions: Sequence[str]) -> list[str]:
    """The GRANT statements that consumers of this database need after ``adopt``.

    In PgQ of Skytools every role may call the functions of pgq_ext and pgq_coop.  Call
    this before ``adopt``; only members of queue roles are known.  Raises InstallError.
    """
    with translated(conn):
        rows = conn.execute(query("adopt_grants"), {"extensions": list(extensions)}).fetchall()
    return [statement for (statement,) in rows]


def adopt(conn: Connection, *, root: Path | None = None) -> list[PlanStep]:
    """Adopts the extensions' schemas and upgrades them.

    conn -- a connection that is not inside a transaction, of the owner of the extensions.

    Returns the steps that ran, none when there is no such extension.  Programs of Londiste 3 work
    with the result.  Each trigger is tested on rows of its table, before and after: a trigger that
    writes different events is an error.  Rights given on tables of the cascade and of replication
    beyond those of the roles are not kept.  Raises InstallError; then nothing is changed.
    """
    ran: list[PlanStep] = []
    try:
        with conn.transaction():
            apply.lock(conn)
            extensions = found(conn)
            components = source.select(source.load(root), extensions) if extensions else []
            apply.require_owners(conn, components)
            locks.take(conn, extensions)
            samples = sampled.take_samples(conn) if extensions else []
            before = sampled.events(conn, samples)
            for extension in extensions:
                _let_go(conn, extension)
            aside = {
                extension: _set_aside(conn, extension)
                for extension in extensions
                if extension != _UPGRADED
            }
            for component in components:
                steps = _plan(conn, component, component.name in aside)
                apply.run(conn, component, steps)
                ran += steps
                for table in aside.get(component.name, ()):
                    _move_in(conn, component.name, table)
            _require_same_events(sampled.differences(before, sampled.events(conn, samples)))
    except psycopg.Error as error:
        known = from_database(error, where=conn.info.dbname)
        raise InstallError(
            f"extensions cannot be adopted: {known.message}",
            detail="nothing was changed" + (f"; {known.detail}" if known.detail else ""),
            hint=known.hint or "correct the cause, then: londiste install --adopt",
        ) from error
    return ran


def _require_same_events(different: Sequence[str]) -> None:
    """Raises InstallError with the triggers that write different events for the same rows."""
    if different:
        raise InstallError(
            f"{len(different)} triggers would write different events after adoption",
            detail="nothing was changed; " + "; ".join(different),
            hint=(
                "create these triggers with other arguments (docs/howto/coming-from-pgq.md),"
                " then: londiste install --adopt"
            ),
        )


def _let_go(conn: Connection, extension: str) -> None:
    """Drops the extension but keeps its objects."""
    name = sql.Identifier(extension)
    # The types of a table's rows go with the table in servers of 2024 and later, before not.
    for implied in (False, True):
        members = conn.execute(
            query("extension_members"), {"name": extension, "implied": implied}
        ).fetchall()
        for kind, identity in members:
            # Kind and identity are the server's own words for it, quoted already.
            conn.execute(
                sql.SQL("alter extension {} drop {} {}").format(
                    name, sql.SQL(kind), sql.SQL(identity)
                )
            )
    conn.execute(sql.SQL("drop extension {}").format(name))


def _plan(conn: Connection, component: Component, moved: bool) -> Sequence[PlanStep]:
    """The plan that adopts the component, or installs it if it was no extension."""
    if moved:
        return plan(component, Installed()).steps
    installed = ledger.read(conn, component.name)
    if not installed.foreign:
        return plan(component, installed).steps
    # The queue.  Nothing but the extension's programs has called what the after-files drop.
    ledger.create(conn, component.name)
    ledger.remember(conn, component.name, {ledger.COMPONENT: ledger.LedgerEntry("", _BEFORE_ALL)})
    return plan(component, ledger.read(conn, component.name), after=True).steps


def _set_aside(conn: Connection, schema: str) -> list[str]:
    """Moves the rows to temporary tables; drops the tables, and the functions with their row types.

    A user's view on them is an error.  Returns the tables, each after those that its
    foreign keys name.
    """
    tables = [name for (name,) in conn.execute(query("schema_tables"), {"schema": schema})]
    for table in tables:
        conn.execute(
            sql.SQL("create temp table {} on commit drop as table {}").format(
                sql.Identifier(_aside(schema, table)), sql.Identifier(schema, table)
            )
        )
    for (signature,) in conn.execute(query("row_functions"), {"schema": schema}).fetchall():
        conn.execute(sql.SQL("drop function {}").format(sql.SQL(signature)))
    if tables:
        names = sql.SQL(", ").join(sql.Identifier(schema, table) for table in tables)
        conn.execute(sql.SQL("drop table {}").format(names))
    return tables


def _move_in(conn: Connection, schema: str, table: str) -> None:
    """Moves the saved rows into the new table, and its sequences after them.

    A column that the new table lacks is an error: no value is lost.
    """
    aside = _aside(schema, table)
    columns = [name for (name,) in conn.execute(query("temporary_columns"), {"table": aside})]
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    conn.execute(
        sql.SQL("insert into {} ({}) select {} from pg_temp.{}").format(
            sql.Identifier(schema, table), names, names, sql.Identifier(aside)
        )
    )
    if "nr" in columns:
        conn.execute(
            sql.SQL(
                "select pg_catalog.setval(pg_catalog.pg_get_serial_sequence({name}, 'nr'),"
                " pg_catalog.max(nr)) from {table}"
            ).format(name=sql.Literal(f"{schema}.{table}"), table=sql.Identifier(schema, table))
        )


def _aside(schema: str, table: str) -> str:
    return f"aside_{schema}_{table}"
