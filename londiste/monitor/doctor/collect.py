"""Collects the facts about a database: reads only, and blocks no session."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import psycopg

from londiste.db import tls
from londiste.db.connection import Connection, session
from londiste.db.names import TableName
from londiste.db.queries import fetch, has_function, records, translated, tuples
from londiste.db.sessions import schema_guard
from londiste.db.sessions.view_guard import reading
from londiste.db.structure.introspect import extensions, schemas
from londiste.dsn import without_secrets
from londiste.errors import (
    AccessDenied,
    InstallError,
    LondisteError,
    NodeUnreachable,
    NotTrusted,
)
from londiste.install import apply, default_rights, ledger, owners, source
from londiste.monitor.doctor.facts import (
    ColumnFacts,
    DatabaseFacts,
    MoreFacts,
    Object,
    Override,
    SequenceKind,
    SqlState,
    Table,
    TableOwner,
    TypeFacts,
    TypeOwner,
)
from londiste.orchestration.lock_retry import LockedTable, locked_tables, with_holders
from londiste.replication import replicated_rows, replication_role


def collect_server(conn: Connection, dsn: str) -> DatabaseFacts:
    """The facts about the server and the user, without tables and objects."""
    (more,) = fetch(conn, "doctor_server")
    ahead, spread = _clock(conn)
    return replace(
        _server(conn),
        replica=_may_be_replica(dsn),
        more=MoreFacts(
            dsn=without_secrets(dsn),
            clock=ahead,
            spread=spread,
            silenced=replication_role.find(conn),
            **_decoded(more),
        ),
    )


def collect_tables(conn: Connection) -> DatabaseFacts:
    """The facts about tables and what belongs to them."""
    found = tables(conn, locked_tables(conn))
    more = MoreFacts(
        types=_types(conn),
        type_owners=_type_owners(conn, found),
        table_owners=_table_owners(conn, found),
        sequences=sequences(conn),
    )
    return replace(_server(conn), tables=found, more=more)


def _server(conn: Connection) -> DatabaseFacts:
    (server,) = fetch(conn, "migrate_server")
    for key in ("extensions", "roles", "named_roles", "powerful", "uninherited"):
        server[key] = frozenset(server[key])
    for key in ("missing_roles", "installed", "hidden_sequences"):
        server[key] = tuple(server[key])
    return DatabaseFacts(**server)


def _decoded(row: dict[str, Any]) -> dict[str, Any]:
    """A row of ``doctor_server`` as fields of MoreFacts."""
    return {
        **row,
        "overrides": tuple(Override(**one) for one in row["overrides"]),
        "temporary": tuple(row["temporary"]),
    }


def _types(conn: Connection) -> tuple[TypeFacts, ...]:
    return tuple(
        TypeFacts(**{**row, "labels": None if row["labels"] is None else tuple(row["labels"])})
        for row in fetch(conn, "doctor_types")
    )


def has_xml(conn: Connection) -> bool:
    """Whether the server was built with libxml: without it no value of type xml exists.

    It logs an error where not; nothing else shows it to every user.
    """
    try:
        with conn.transaction():
            conn.execute("select '<a/>'::pg_catalog.xml")
    except psycopg.errors.FeatureNotSupported:
        return False
    return True


def _type_owners(conn: Connection, found: Sequence[Table]) -> tuple[TypeOwner, ...]:
    names = [table.name.quoted for table in found]
    return tuple(records(conn, TypeOwner, "types_of_others", tables=names))


def _table_owners(conn: Connection, found: Sequence[Table]) -> tuple[TableOwner, ...]:
    names = [table.name.quoted for table in found]
    return tuple(records(conn, TableOwner, "owners_without_set", tables=names))


def examine(conn: Connection, dsn: str, *, rows: bool = False, waits: bool = True) -> DatabaseFacts:
    """Collects all facts about one database.  Changes nothing and blocks no session.

    conn -- in autocommit, with time limits for statements and locks.
    dsn -- connection string of the same database.
    rows -- look which tables have rows.
    waits -- for tables that another session has locked.  Without it their sizes and rows, and the
        definitions of all objects, are not read; the tables are in ``more.locked``.
    What this user may not read is in ``more.unreadable`` and ``more.unreadable_sql``.
    """
    locked = [] if waits else locked_tables(conn)
    facts = replace(
        _server(conn),
        replica=_may_be_replica(dsn),
        tables=tables(conn, locked),
        objects=objects(conn, definitions=waits),
    )
    unreadable: list[str] = []
    unreadable_sql: list[str] = []
    (server,) = fetch(conn, "doctor_server")
    ahead, spread = _clock(conn)
    refused = _guarded(conn)
    if "londiste" in facts.installed and refused is None:
        with _noted(unreadable_sql, "the list of replicated tables"):
            mine, copying = _replicated(conn)
            facts = replace(facts, more=replace(facts.more, replicated=mine, copying=copying))
        with _noted(unreadable_sql, "captures of replicated rows"):
            facts = replace(facts, more=replace(facts.more, silent=_silent(conn)))
    state = SqlState()
    if refused is not None:
        state = SqlState(refused=(refused.message, refused.hint))
    else:
        with _noted(unreadable_sql, "the version of its SQL"):
            state = _sql(conn)
    held: set[TableName] = set()
    hidden = {one.name for one in locked}
    for table in facts.tables if rows else ():
        if table.kind == "r" and not facts.replicates(table) and table.name not in hidden:
            with _noted(unreadable, f"table {table.name}"):
                if with_rows(conn, [table.name]):
                    held |= {table.name, table.tree}
    place = server["place"]
    owned = extensions(conn, [one.name or "" for one in facts.objects if one.kind == "extension"])
    return replace(
        facts,
        more=replace(
            facts.more,
            dsn=without_secrets(dsn),
            free_bytes=_free(place) if place and not _remote(conn) else None,
            address=conn.info.hostaddr or "",
            encrypted=bool(conn.pgconn.ssl_in_use),
            clock=ahead,
            spread=spread,
            types=_types(conn),
            type_owners=_type_owners(conn, facts.tables),
            table_owners=_table_owners(conn, facts.tables),
            sequences=sequences(conn),
            extensions_at=owned,
            extension_schemas=schemas(conn, [x.schema for x in owned.values() if x.schema]),
            with_rows=frozenset(held),
            locked=tuple(with_holders(conn, locked)),
            sql=state,
            xml=has_xml(conn),
            icu_users=tuple(row["name"] for row in fetch(conn, "doctor_icu")),
            silenced=replication_role.find(conn),
            subscribed=replicated_rows.subscribed(conn),
            excess=default_rights.find(conn),
            unreadable=tuple(unreadable),
            unreadable_sql=tuple(unreadable_sql),
            **_decoded(server),
        ),
    )


def _guarded(conn: Connection) -> NotTrusted | None:
    """Why a superuser must use no schema of Londiste there; None if each can be trusted."""
    try:
        with translated(conn):
            schema_guard.guard(conn)
    except NotTrusted as error:
        return error
    return None


@contextlib.contextmanager
def _noted(unreadable: list[str], what: str) -> Iterator[None]:
    """Notes what could not be read, instead of an error."""
    try:
        yield
    except (LondisteError, psycopg.Error) as error:
        if isinstance(error, NodeUnreachable):
            raise
        unreadable.append(what)


def _clock(conn: Connection) -> tuple[float, float]:
    """Seconds by which the server's clock is ahead of this host's, and the uncertainty."""
    before = time.time()
    row = conn.execute("select extract(epoch from pg_catalog.clock_timestamp())::float8").fetchone()
    after = time.time()
    assert row is not None
    return float(row[0]) - (before + after) / 2, (after - before) / 2


def _replicated(conn: Connection) -> tuple[frozenset[TableName], frozenset[TableName]]:
    """The tables that are in a queue, and those of them that a copy writes."""
    rows = {TableName.parse(r["name"]): r["copying"] for r in fetch(conn, "doctor_replicated")}
    return frozenset(rows), frozenset(name for name, copying in rows.items() if copying)


def _silent(conn: Connection) -> tuple[tuple[str, str, str, str, str], ...]:
    """Captures that do not fire for replicated rows; none with SQL of an earlier version."""
    if not has_function(conn, "londiste._event_triggers(text,oid)"):
        return ()
    return tuple(
        (queue, kind, table, brought, branch)
        for queue, branch in tuples(conn, "capturing_nodes")
        for kind, table, brought in replicated_rows.silent(conn, queue)
    )


def _sql(conn: Connection) -> SqlState:
    """The state of the SQL of Londiste."""
    try:
        found = ledger.read_all(conn, source.load())
        earlier = tuple(n for n, one in found.items() if one.extension is not None or one.foreign)
        if earlier:
            return SqlState(
                londiste3=earlier, extension=all(found[n].extension is not None for n in earlier)
            )
        present = [name for name, one in found.items() if one.has_ledger]
        # Those that would be installed.
        missing = owners.of_components([name for name in found if name not in present])
        owners.require(conn, missing, installing=True)
        if not present:
            return SqlState()
        plans = apply.plan_for(conn, present)
    except (InstallError, NotTrusted) as error:
        return SqlState(refused=(error.message, error.hint))
    return SqlState(outdated=tuple(p.component for p in plans if p.steps and p.installed))


def _remote(conn: Connection) -> bool:
    return tls.exposed(conn.info.hostaddr, encrypted=False)


def _free(place: str) -> int | None:
    """Free bytes on the disk of a directory; None if it is not visible on this host."""
    try:
        status = os.statvfs(place)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize


def tables(conn: Connection, locked: Sequence[LockedTable] = ()) -> tuple[Table, ...]:
    """The tables of the user.

    locked -- tables whose size is left out; for others that are locked it waits.
    """
    return tuple(
        Table(
            TableName(row.pop("schema"), row.pop("name")),
            **{
                **row,
                "root": TableName(*row["root"]) if row["root"] else None,
                "always": tuple(row["always"]),
                "exclusions": tuple(row["exclusions"]),
                "rules": tuple(row["rules"]),
                "columns": tuple(ColumnFacts(**column) for column in row["columns"]),
            },
        )
        for row in fetch(conn, "migrate_tables", locked=[one.oid for one in locked])
    )


def objects(conn: Connection, *, definitions: bool = True) -> tuple[Object, ...]:
    """Objects other than tables, in the order of creation."""
    return tuple(Object(**row) for row in fetch(conn, "migrate_objects", definitions=definitions))


def sequences(conn: Connection) -> tuple[SequenceKind, ...]:
    """The sequences of the user."""
    return tuple(
        SequenceKind(TableName(row.pop("schema"), row.pop("name")), **row)
        for row in fetch(conn, "migrate_sequences")
    )


def pending_keys(conn: Connection) -> frozenset[tuple[str, str]]:
    """Foreign keys that are dropped during a copy: table and name."""
    return frozenset((row["from_table"], row["name"]) for row in fetch(conn, "pending_keys"))


def event_triggers(conn: Connection) -> dict[str, bool]:
    """The event triggers that fire at DDL, and whether also in sessions of replication."""
    return {row["name"]: row["always"] for row in fetch(conn, "event_triggers")}


def not_valid(conn: Connection, *, not_null: bool) -> list[tuple[str, str]]:
    """Constraints that old rows may violate: table or domain, as SQL writes it, and name.

    not_null -- also NOT NULLs.
    """
    rows = fetch(conn, "not_valid_constraints", kinds=["c", "n"] if not_null else ["c"])
    return [(row["owner"], row["name"]) for row in rows]


def copying(conn: Connection) -> frozenset[TableName]:
    """Tables whose keys, indexes and constraints a running copy has dropped."""
    return _replicated(conn)[1]


def materialized_views(conn: Connection) -> dict[str, bool]:
    """The materialized views of the user, as SQL writes them: each after those that it reads.

    With each, whether it is filled: not left WITH NO DATA.
    """
    mine = {one.signature for one in objects(conn) if one.kind == "materialized view"}
    found = fetch(conn, "migrate_refreshed")
    return {row["name"]: row["filled"] for row in found if row["name"] in mine}


def with_rows(conn: Connection, names: list[TableName]) -> list[TableName]:
    """The tables that exist and have a row."""
    wanted = json.dumps([list(name) for name in names])
    found = []
    for row in fetch(conn, "migrate_relations", names=wanted):
        name = TableName(row["schema"], row["name"])
        with translated(conn), reading(conn, name):
            cursor = conn.execute(f"select from {name.quoted} limit 1".encode())
            held = cursor.fetchone() is not None
        if held:
            found.append(name)
    return found


def _may_be_replica(dsn: str) -> bool:
    # In a session of its own: where it may be set, it need not be possible to take it back.
    try:
        with session(
            dsn,
            name="londiste doctor",
            autocommit=True,
            replica=True,
            answer_seconds=30,
            # A superuser may set it himself, and calls no function for it.
            guarded=False,
        ):
            return True
    except AccessDenied:
        return False
