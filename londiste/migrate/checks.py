"""Checks before a migration: those of ``londiste doctor``, and what the chosen method skips."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from londiste.db.names import quote
from londiste.errors import UsageError
from londiste.migrate import rights
from londiste.migrate.rights import RightsState
from londiste.migrate.schema_copy import SchemaMethod
from londiste.monitor.doctor.checks.privileges import membership
from londiste.monitor.doctor.examine import run_checks, worst_first
from londiste.monitor.doctor.facts import DatabaseFacts, Object, Table
from londiste.monitor.doctor.situation import Situation, critical, found, notice, warning
from londiste.monitor.queues.model import Finding, Severity
from londiste.wording import shortened


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
    pair = Situation(
        old, new, names=("old", "new"), whole=True, compared=not begun, held=tuple(held)
    )
    rest = [*_structure(old, new, way), *left_out(old, new, way)]
    if not begun and way is not SchemaMethod.EXISTING:
        rest += _collations(old, new)
    return worst_first([*run_checks(pair), *rest])


def refusals(these: Iterable[Finding]) -> list[Finding]:
    """The findings that prevent the start."""
    return [one for one in these if one.severity is Severity.CRITICAL]


def _structure(old: DatabaseFacts, new: DatabaseFacts, way: SchemaMethod) -> Iterator[Finding]:
    """Tables that the chosen method cannot create."""
    names = {table.name for table in new.tables}
    missing = [
        table
        for table in old.tables
        if table.name not in names and table.replicated and not table.partition
    ]
    if way is SchemaMethod.EXISTING and missing:
        yield critical(
            "structure",
            f"{len(missing)} tables are not in the new database: {_named(missing)}",
            "--schema existing creates none",
            "create them, or choose --schema create or --schema pg_dump",
        )


def _collations(old: DatabaseFacts, new: DatabaseFacts) -> Iterator[Finding]:
    """Objects that the new server refuses, because it was built without ICU."""
    users = old.more.icu_users
    if users and not new.more.icu:
        yield critical(
            "collation",
            f"{len(users)} objects are or use collations of ICU: {shortened(users)}",
            "the new server was built without ICU: it cannot create them",
            "use a server with ICU, or change them to other collations in the old database",
            side="new",
        )


def table_findings(notes: Iterable[str], refused: UsageError | None) -> Iterator[Finding]:
    """What ``schema_copy.foreseen`` tells of tables that --schema create will create."""
    if refused is not None:
        yield critical("structure", refused.message, refused.detail, refused.hint, side="new")
    for note in notes:
        yield warning(
            "left-out",
            note,
            "--schema create creates the table differently from that of the old database",
            "accept it, or change the table in the old database before the start",
            side="new",
        )


def owner_findings(
    old: RightsState, new: RightsState, server: DatabaseFacts, accepted: bool
) -> Iterator[Finding]:
    """Objects that cannot belong to their owners in the new database.

    server -- the new database.  accepted -- ``--accept-definers``.
    """
    definers = rights.not_ownable(old, new, "code")
    for (role, schema), objects in definers.items():
        lacks = f"may not create in schema {schema}" if schema else ""
        do, statements = _remedy(role, schema, new, server)
        yield found(
            Severity.WARNING if accepted else Severity.CRITICAL,
            "definers",
            f"{len(objects)} SECURITY DEFINER functions would run as {server.user}:"
            f" {shortened(objects)}",
            f"they run as their owner, role {role}, which "
            + (lacks or ("you cannot set" if role in new.roles else "the new server lacks")),
            f"{do}; or accept it: --accept-definers",
            side="new",
            object=role,
            admin_sql=statements,
        )
    for (role, schema), objects in rights.not_ownable(old, new).items():
        rest = [one for one in objects if one not in definers.get((role, schema), ())]
        lacks = f"may not create in schema {schema}" if schema else "cannot be set"
        do, statements = _remedy(role, schema, new, server)
        if rest:
            yield warning(
                "rights",
                f"{len(rest)} objects will belong to {server.user}: {shortened(rest)}",
                f"the owner is role {role}, which {lacks}; views read with the rights of"
                " their owner",
                do,
                side="new",
                object=role,
                admin_sql=statements if schema else (),
            )


def _remedy(
    role: str, schema: str, new: RightsState, server: DatabaseFacts
) -> tuple[str, Sequence[str]]:
    """What lets the user make the role an owner, in words and as statements.

    schema -- as in ``not_ownable``.
    """
    if schema:
        statements = [rights.to_create(role, schema)]
        return f"as the owner of the new database: {'; '.join(statements)}", statements
    if role in server.powerful:
        # Its grant would give this user the rights of an administrator for good.
        return "migrate with a superuser of the new server", ()
    statements = _to_own(role, new, server)
    return f"as an administrator of the new server: {'; '.join(statements)}", statements


def _to_own(role: str, new: RightsState, server: DatabaseFacts) -> list[str]:
    """The statements after which the user of the new database may make the role an owner."""
    create = [] if role in new.roles else [f"create role {quote(role)} nologin"]
    return create if server.superuser and create else [*create, *membership(role, server)]


def not_valid_findings(constraints: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    """Constraints of the old database that its rows may violate.

    constraints -- table or domain, as SQL writes it, and name.
    """
    if constraints:
        statements = [
            f"alter {owner} validate constraint {quote(name)}" for owner, name in constraints
        ]
        yield warning(
            "not-valid",
            f"{len(constraints)} constraints of the old database are NOT VALID: "
            + shortened([f"{name} of {owner}" for owner, name in constraints]),
            "the new database checks every row: a copy stops at the first one that violates it",
            f"in the old database: {'; '.join(statements)}; where that fails correct the rows, or"
            " drop the constraint until the copy is complete",
            side="old",
            object=", ".join(name for _, name in constraints),
            sql=statements,
        )


def event_trigger_findings(side: str, triggers: Mapping[str, bool], off: bool) -> Iterator[Finding]:
    """Event triggers that fire at the DDL of the migration.

    side -- old or new.  triggers -- name, and whether it fires in sessions of replication, too.
    off -- the migration may switch event triggers off in its own sessions.
    """
    names = [name for name, always in triggers.items() if always or not off]
    if names:
        statements = [f"alter event trigger {quote(name)} disable" for name in names]
        yield warning(
            "event-triggers",
            f"{len(names)} event triggers fire at DDL of the migration in the {side} database:"
            f" {shortened(names)}",
            "the database without writes refuses the rows that such a trigger inserts, and the"
            " command stops",
            f"as an administrator, until migrate finish: {'; '.join(statements)}",
            side=side,
            object=", ".join(names),
            admin_sql=statements,
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
        names = shortened([o.signature for o in ones])
        yield warning(
            "left-out",
            f"{len(ones)} of kind {kind} will not be created: {names}",
            f"--schema {way.value} does not create them",
            "create them in the new database first, or by pg_dump: --schema pg_dump",
        )
    made = {table.name for table in new.tables}
    tables = [t for t in old.tables if t.name not in made and not t.replicated]
    if tables:
        yield warning(
            "left-out",
            f"{len(tables)} tables that are not replicated will not be created: {_named(tables)}",
            f"--schema {way.value} creates replicated tables only",
            "create them in the new database, or by pg_dump: --schema pg_dump",
        )
    if way is SchemaMethod.CREATE:
        yield notice(
            "left-out",
            "security labels are not created",
            "--schema create creates complete tables, and objects whose text PostgreSQL provides",
            "create them in the new database, or use --schema pg_dump",
        )


def _named(tables: Sequence[Table]) -> str:
    return shortened([str(t.name) for t in tables])
