"""Checks before a migration: a pure function of the facts about both databases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from londiste.db.connection import replica_grants
from londiste.db.names import quote
from londiste.db.structure.tables import PARTITIONED_IDENTITY
from londiste.migrate.collect import DatabaseFacts, Object, Table
from londiste.migrate.schema_copy import SchemaMethod
from londiste.migrate.table_diff import differing
from londiste.monitor.queues.model import Finding, Severity

_OLDEST, _NEWEST = 140000, 200000
#: Seconds after which an open transaction is worth a word: a capture trigger waits for it.
_LONG = 60.0
#: Rows of a table without key from which on it is slow.
_LARGE = 100_000
_SHOWN = 5


def findings(
    old: DatabaseFacts,
    new: DatabaseFacts,
    way: SchemaMethod,
    *,
    held: Sequence[str] = (),
    begun: bool = False,
) -> list[Finding]:
    """All findings, the worst first.

    way -- how the schema of the new database is created.
    held -- tables of the new database that contain rows before the start.
    begun -- the migration has started: a script in the queue may make the tables equal again.
    """
    found = [
        *_server("old", old),
        *_server("new", new),
        *_both(old, new),
        *_tables(old),
        *_rows_apart(old, new),
        *([] if begun else differing(old.tables, new.tables)),
        *_source(old),
        *_target(old, new, way, held),
        *left_out(old, new, way),
    ]
    return sorted(found, key=lambda one: -one.severity)


def refusals(found: Iterable[Finding]) -> list[Finding]:
    """The findings that prevent the start."""
    return [one for one in found if one.severity is Severity.CRITICAL]


def _server(side: str, facts: DatabaseFacts) -> Iterator[Finding]:
    if not _OLDEST <= facts.version < _NEWEST:
        yield _bad(
            "version",
            f"the {side} server is PostgreSQL {facts.version_text}",
            "releases 14 to 18 are supported",
            "upgrade it by other means",
        )
    if facts.standby:
        yield _bad(
            "standby",
            f"the {side} database is on a standby",
            "a standby is read-only",
            "give the connection string of its primary",
        )
    elif facts.read_only:
        yield _bad(
            "read-only",
            f"sessions of {facts.user} in the {side} database are read only",
            "default_transaction_read_only is on",
            f'alter role "{facts.user}" set default_transaction_read_only = off',
        )
    if "pgq" not in facts.installed and facts.missing_roles and not facts.makes_roles:
        names = ", ".join(facts.missing_roles)
        yield _bad(
            "roles",
            f"the {side} server lacks the roles {names}, and {facts.user} may not create them",
            "the queue needs these group roles, which cannot log in",
            "as an administrator of that server: create role pgq_reader nologin;"
            " create role pgq_writer nologin;"
            " create role pgq_admin nologin in role pgq_reader, pgq_writer;"
            " create role londiste_reader nologin in role pgq_reader;"
            " create role londiste_writer nologin in role pgq_admin",
        )
    if not facts.makes_schemas:
        yield _bad(
            "create",
            f"{facts.user} may not create schemas in the {side} database",
            "the queue needs schemas, and the tables may need more",
            f'as its owner: grant create on database … to "{facts.user}"',
        )
    if not facts.replica:
        when = "" if side == "new" else " once it follows the new one"
        yield _bad(
            "replica",
            f"{facts.user} may not set session_replication_role in the {side} database",
            f"triggers and foreign keys must not fire for replicated rows{when}",
            _let_it_be_replica(facts),
        )
    if facts.prepared:
        yield _warn(
            "prepared",
            f"{facts.prepared} prepared transactions in the {side} database",
            "they hold locks until they are committed or rolled back",
            "select * from pg_prepared_xacts; then commit prepared or rollback prepared",
        )


def _let_it_be_replica(facts: DatabaseFacts) -> str:
    """The remaining statements as text, after the first colon and blank."""
    statements = replica_grants(facts.user, facts.version)
    if facts.version >= 150000:
        return f"as an administrator: {statements[0]}"
    if facts.replica_function == "refused":
        statements = statements[1:]
    first = "londiste install --db DSN, then " if facts.replica_function == "missing" else ""
    return f"{first}as an administrator in that database: {'; '.join(statements)}"


def _both(old: DatabaseFacts, new: DatabaseFacts) -> Iterator[Finding]:
    if new.version // 10000 < old.version // 10000:
        yield _warn(
            "older",
            f"the new server is older: PostgreSQL {new.version_text} after {old.version_text}",
            "features of the newer release cannot be created there",
            "check that the database uses none of them",
        )
    if old.encoding != new.encoding and new.encoding != "UTF8":
        yield _bad(
            "encoding",
            f"the new database has the encoding {new.encoding}, the old one {old.encoding}",
            "text that the new encoding cannot represent would stop the migration",
            "create the new database with encoding 'UTF8' template template0",
        )
    elif old.encoding == "SQL_ASCII" and new.encoding != "SQL_ASCII":
        yield _warn(
            "encoding",
            f"the old database has the encoding SQL_ASCII, the new one {new.encoding}",
            "bytes that are invalid in the new encoding stop the copy of their table",
            "clean them first, or create the new database with encoding 'SQL_ASCII'",
        )
    if (old.collate, old.ctype) != (new.collate, new.ctype):
        yield _warn(
            "collation",
            f"the new database sorts text by {new.collate}, the old one by {old.collate}",
            "queries with order by, and partitions by ranges of text, return other results",
            "create the new database with the same lc_collate and lc_ctype, or accept it",
        )
    missing = sorted((old.named_roles - new.roles) - {old.user})
    if missing:
        yield _warn(
            "owners",
            f"the new server lacks the roles {', '.join(missing[:_SHOWN])}"
            + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""),
            "owners and grants that name them are skipped",
            "create them first: pg_dumpall --roles-only on the old server",
        )


def _tables(old: DatabaseFacts) -> Iterator[Finding]:
    for table in old.tables:
        if "." in table.name.schema:
            yield _bad(
                "name",
                f"table {table.name.quoted} is in a schema with a dot in its name",
                "a queue cannot name such a table",
                "rename the schema",
            )
        elif not table.mine:
            yield _bad(
                "owner",
                f"table {table.name} belongs to {table.owner}",
                f"{old.user} may not create triggers on it",
                f'as an administrator: grant "{table.owner}" to "{old.user}"',
            )
        elif table.persistence == "u":
            yield _warn(
                "unlogged",
                f"table {table.name} is unlogged",
                "unlogged tables are not replicated",
                f"alter table {table.name.quoted} set logged, or fill it after the switch",
            )
        elif not table.columns:
            yield _warn(
                "columns",
                f"table {table.name} has no columns",
                "its rows have no values; it is not replicated",
                "accept it, or add a column",
            )
        elif not table.keyed and not table.partition:
            large = f"; each batch with such a change reads all of about {table.rows} rows"
            yield Finding(
                Severity.WARNING if table.rows >= _LARGE else Severity.OK,
                "key",
                f"table {table.name} has no primary key",
                "updates and deletes find their row by all its columns"
                + (large if table.rows >= _LARGE else ""),
                f"alter table {table.name.quoted} add primary key (…), or accept it",
                "",
            )


def _rows_apart(old: DatabaseFacts, new: DatabaseFacts) -> Iterator[Finding]:
    """Triggers and policies, which both sides have or will get."""
    tables = {table.name: table for table in old.tables}
    for table in new.tables:
        mine = tables.get(table.name, table)
        tables[table.name] = replace(
            mine,
            always=tuple(sorted({*mine.always, *table.always})),
            forced=mine.forced or table.forced,
        )
    for table in tables.values():
        for trigger in table.always:
            yield _warn(
                "always",
                f"trigger {trigger} of table {table.name} fires for replicated rows, too",
                "on the subscriber it repeats effects that are replicated already, or fails",
                f"in both databases, until the end of the migration: alter table"
                f" {table.name.quoted} enable trigger {quote(trigger)}"
                " (or disable, if it was ENABLE REPLICA)",
            )
        for side, facts in (("old", old), ("new", new)):
            if table.forced and not facts.bypasses:
                yield _bad(
                    "policies",
                    f"table {table.name} forces row-level security, and {facts.user} cannot"
                    f" bypass it in the {side} database",
                    "rows that a policy hides cannot be copied, compared or written",
                    f"until the end of the migration: alter table {table.name.quoted} no force row"
                    f" level security; or as an administrator: alter role"
                    f" {quote(facts.user)} bypassrls",
                )


def _source(old: DatabaseFacts) -> Iterator[Finding]:
    if old.oldest_transaction > _LONG:
        yield _warn(
            "transaction",
            f"a transaction that writes is open for {old.oldest_transaction:.0f} s"
            " in the old database",
            "adding its tables, and the last tick of a switch, wait for its end",
            "end it before start, and before switch: select * from pg_stat_activity"
            " order by xact_start",
        )
    for name in old.hidden_sequences:
        yield _bad(
            "sequence",
            f"{old.user} may not read sequence {name}",
            "without its value the new database would return numbers twice",
            f'grant select, update on sequence {name} to "{old.user}"',
        )
    if old.large_objects:
        yield _warn(
            "large-objects",
            f"{old.large_objects} large objects",
            "large objects are not replicated",
            "move them into columns of type bytea; or copy them during a pause of writes:"
            " lo_export and lo_import",
        )
    if old.publications:
        yield _warn(
            "publications",
            f"{old.publications} publications",
            "their subscribers keep reading from the old database",
            "create publications on the new database and new subscriptions after the switch",
        )


def _target(
    old: DatabaseFacts, new: DatabaseFacts, way: SchemaMethod, held: Sequence[str]
) -> Iterator[Finding]:
    if held:
        more = f" and {len(held) - _SHOWN} more" if len(held) > _SHOWN else ""
        yield _bad(
            "rows",
            f"tables of the new database are not empty: {', '.join(held[:_SHOWN])}{more}",
            "the copy would replace their rows",
            "truncate the tables, or choose another database",
        )
    extensions = [o.name or "" for o in old.objects if o.kind == "extension"]
    there = {o.name for o in new.objects if o.kind == "extension"}
    for name in extensions:
        if name not in there and name not in new.extensions:
            yield _bad(
                "extension",
                f"extension {name} is not available on the new server",
                "objects that use it cannot be created there",
                "install its package on the new server",
            )
    names = {table.name for table in new.tables}
    missing = [
        table
        for table in old.tables
        if table.name not in names and table.replicated and not table.partition
    ]
    if way is SchemaMethod.EXISTING and missing:
        yield _bad(
            "structure",
            f"{len(missing)} tables are not in the new database: {_named(missing)}",
            "--schema existing creates none",
            "create them, or choose --schema create or --schema pg_dump",
        )
    if way is SchemaMethod.CREATE and new.version < PARTITIONED_IDENTITY:
        for table in missing:
            identities = [column.name for column in table.columns if column.identity]
            if table.kind == "p" and identities:
                yield _bad(
                    "structure",
                    f"partitioned table {table.name} has the identity column {identities[0]}",
                    f"that needs PostgreSQL 17 or later, the new server is {new.version_text}",
                    "create it with partitions, a sequence of that name and default nextval(…)",
                )
    if not new.makes_in_public and any(t.name.schema == "public" for t in missing):
        yield _bad(
            "create",
            f"{new.user} may not create tables in schema public of the new database",
            "from PostgreSQL 15 on only the owner of the database may",
            f'as an administrator there: grant create on schema public to "{new.user}"',
        )
    yield Finding(
        Severity.OK,
        "space",
        f"the old database has {old.bytes / 1e6:,.0f} MB",
        "SQL cannot report the free disk space of the new server",
        "provide twice as much: rows, indexes, and WAL of both",
        "",
    )


def left_out(old: DatabaseFacts, new: DatabaseFacts, way: SchemaMethod) -> Iterator[Finding]:
    """Objects that the chosen method does not create."""
    if way is SchemaMethod.PG_DUMP:
        return
    there = {(o.kind, o.signature) for o in new.objects}
    missing = [o for o in old.objects if (o.kind, o.signature) not in there]
    if way is SchemaMethod.CREATE:
        missing = [o for o in missing if o.definition is None]
    by_kind: dict[str, list[Object]] = {}
    for one in missing:
        by_kind.setdefault(one.kind, []).append(one)
    for kind, ones in by_kind.items():
        names = ", ".join(o.signature for o in ones[:_SHOWN])
        more = f" and {len(ones) - _SHOWN} more" if len(ones) > _SHOWN else ""
        yield _warn(
            "left-out",
            f"{len(ones)} of kind {kind} will not be created: {names}{more}",
            f"--schema {way.value} does not create them",
            "create them in the new database first, or by pg_dump: --schema pg_dump",
        )
    made = {table.name for table in new.tables}
    tables = [t for t in old.tables if t.name not in made and not t.replicated]
    if tables:
        yield _warn(
            "left-out",
            f"{len(tables)} tables that are not replicated will not be created: {_named(tables)}",
            f"--schema {way.value} creates replicated tables only",
            "create them in the new database, or by pg_dump: --schema pg_dump",
        )
    if way is SchemaMethod.CREATE:
        yield Finding(
            Severity.OK,
            "left-out",
            "grants and comments of schemas, functions and views, default privileges, security"
            " labels and settings of the database are not created",
            "--schema create creates complete tables, and objects whose text PostgreSQL provides",
            "create them in the new database, or use --schema pg_dump",
            "",
        )


def _named(tables: Sequence[Table]) -> str:
    more = f" and {len(tables) - _SHOWN} more" if len(tables) > _SHOWN else ""
    return ", ".join(str(t.name) for t in tables[:_SHOWN]) + more


def _bad(kind: str, what: str, why: str, do: str) -> Finding:
    return Finding(Severity.CRITICAL, kind, what, why, do, "")


def _warn(kind: str, what: str, why: str, do: str) -> Finding:
    return Finding(Severity.WARNING, kind, what, why, do, "")
