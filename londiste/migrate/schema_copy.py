"""Copy of the schema into the new database, by pg_dump or from the catalog.

The output of pg_dump runs here in one transaction.  Without it Londiste creates the objects whose
text PostgreSQL provides: schemas, extensions, functions, complete tables with their types,
sequences, views.  Both ways create everything or nothing, so the missing objects can be computed
at any time, and the step is done when none is missing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import psycopg

from londiste.db.connection import Connection, describe_dsn
from londiste.db.names import TableName
from londiste.db.queries import fetch
from londiste.db.structure.introspect import read, there
from londiste.db.structure.render import make as make_tables
from londiste.db.structure.render import others
from londiste.db.structure.types import WHOLE, Part, Structures, There
from londiste.errors import BadOption, LondisteError, StateError, UsageError, from_database
from londiste.migrate import rights
from londiste.migrate.databases import Pair
from londiste.migrate.pg_dump import Dumper, dump, find_dumper, named_dumper, statements
from londiste.migrate.rights import RightsState
from londiste.monitor.doctor import collect
from londiste.monitor.doctor.facts import DatabaseFacts, Object
from londiste.orchestration.connections import Connections
from londiste.wording import shortened

log = logging.getLogger(__name__)

_SHOWN = 5
#: Characters of a statement that failed.
_STATEMENT_SHOWN = 300


class SchemaMethod(StrEnum):
    """How the schema of the new database is created; the values of ``--schema``."""

    PG_DUMP = "pg_dump"
    CREATE = "create"
    EXISTING = "existing"


def choose(
    asked: str,
    old: DatabaseFacts,
    new: DatabaseFacts,
    *,
    begun: bool = False,
    program: str | None = None,
) -> tuple[SchemaMethod, Dumper | None]:
    """The method for ``--schema``; ``auto`` is pg_dump if one is available, else create.

    Not pg_dump into an older release: its output is for its own and later releases.

    begun -- the new database is part of the migration: later objects are created by ``create``, as
        the output of pg_dump would conflict with existing ones.
    program -- the pg_dump to use.

    Raises BadOption when pg_dump was requested and cannot be used.
    """
    if asked == SchemaMethod.EXISTING:
        return SchemaMethod.EXISTING, None
    if begun:
        return SchemaMethod.CREATE, None
    missing = missing_in(old, new)
    release = old.version // 10000
    dumper = named_dumper(program, release) if program else find_dumper(release)
    if asked == SchemaMethod.PG_DUMP:
        if not missing:
            return SchemaMethod.PG_DUMP, dumper
        if dumper is None:
            raise BadOption(
                f"no pg_dump of release {release} or later was found",
                detail="searched on PATH and among the installed servers",
                hint="give its path: --pg-dump PATH; or use --schema create",
            )
        if new.tables:
            raise BadOption(
                "--schema pg_dump: the new database has tables",
                detail="the output of pg_dump needs an empty database",
                hint="drop them, or use --schema create, which creates the missing objects",
            )
        return SchemaMethod.PG_DUMP, dumper
    older = new.version // 10000 < release
    if asked == "auto" and dumper is not None and not new.tables and not older:
        return SchemaMethod.PG_DUMP, dumper
    return SchemaMethod.CREATE, None


def missing_in(old: DatabaseFacts, new: DatabaseFacts) -> list[str]:
    """The objects that are missing in the new database and can be created."""
    names = {table.name for table in new.tables}
    # Those that are not replicated are by ourselves not made.
    found = [f"table {t.name}" for t in old.tables if t.name not in names and t.replicated]
    known = {(o.kind, o.signature) for o in new.objects}
    return found + [
        str(o)
        for o in old.objects
        if o.definition is not None and (o.kind, o.signature) not in known
    ]


@dataclass(frozen=True)
class MakeStructure:
    """Creates the schema of the old database in the new one.

    one_by_one -- the new server lacks roles, or the user is no superuser there: pg_dump leaves out
        owners and grants, and those that are possible are restored.
    accept_definers -- SECURITY DEFINER functions may belong to the user of the migration.
    warn -- receives objects that could not be created as in the old database.
    """

    pair: Pair = field(repr=False)
    way: SchemaMethod
    dumper: Dumper | None = None
    one_by_one: bool = False
    accept_definers: bool = False
    warn: Callable[[str], None] = field(default=log.warning, repr=False)

    def describe(self) -> str:
        how = {
            SchemaMethod.PG_DUMP: "create the schema of the old database, by pg_dump",
            SchemaMethod.CREATE: "create the schema of the old database",
            SchemaMethod.EXISTING: "check that the schema exists",
        }[self.way]
        return f"new: {how}"

    def done(self, sites: Connections) -> bool:
        return self.way is SchemaMethod.EXISTING or not self._missing(sites)

    def run(self, sites: Connections) -> None:
        if self.way is SchemaMethod.PG_DUMP and self.dumper is not None:
            text = dump(self.pair.old.dsn, self.dumper, bare=self.one_by_one)
            wanted = rights.state(sites.at(self.pair.old.dsn))
            with sites.at_length(), sites.transaction(self.pair.new.dsn) as conn:
                before = rights.state(conn, every=True).rights
                conn.execute("set local check_function_bodies = off")
                fetch(conn, "forget_own_tablespace")
                _execute(conn, text, describe_dsn(self.pair.new.dsn), whole=True)
                notes = _restore(conn, wanted, before, accept_definers=self.accept_definers)
            # Settings of the text outlive a committed transaction.
            sites.at(self.pair.new.dsn).close()
        else:
            notes = create(sites, self.pair, accept_definers=self.accept_definers)
        for note in notes:
            self.warn(note)
        missing = self._missing(sites)
        if missing and self.way is SchemaMethod.CREATE:
            raise StateError(
                f"the new database still lacks {len(missing)} objects:"
                f" {', '.join(missing[:_SHOWN])}",
                hint="create them by hand, or use --schema pg_dump with an empty database",
            )

    def _missing(self, sites: Connections) -> list[str]:
        old, new = sites.at(self.pair.old.dsn), sites.at(self.pair.new.dsn)
        there = DatabaseFacts(tables=collect.tables(new), objects=collect.objects(new))
        here = DatabaseFacts(tables=collect.tables(old), objects=collect.objects(old))
        if self.way is SchemaMethod.PG_DUMP:
            # All in one transaction: one table there is all tables there.
            return [] if there.tables or not here.tables else missing_in(here, there)
        return missing_in(here, there)


def create(sites: Connections, pair: Pair, *, accept_definers: bool = False) -> list[str]:
    """Creates the missing objects whose text PostgreSQL provides, in one transaction.

    accept_definers -- as in MakeStructure.

    Returns what could not be created as in the old database: parts of tables, owners and grants.
    """
    old = sites.at(pair.old.dsn)
    rights_wanted = rights.state(old)
    wanted = [o for o in collect.objects(old) if o.definition is not None]
    with sites.at_length(), sites.transaction(pair.new.dsn) as conn:
        # It is idle during queries to the old database; no session waits for its locks.
        conn.execute("set local idle_in_transaction_session_timeout = 0")
        conn.execute("set local check_function_bodies = off")
        fetch(conn, "forget_own_tablespace")
        known = {(o.kind, o.signature) for o in collect.objects(conn)}
        left = [o for o in wanted if (o.kind, o.signature) not in known]
        before = rights.state(conn, every=True).rights
        # What needs no table first: tables may need it.
        schemas = {("schema", o.signature) for o in left if o.kind == "schema"}
        left = _make_what_goes(conn, left, last="function")
        # Owners of tables have to be allowed to own something there.
        _give_rights(conn, rights_wanted, {*schemas, rights.PUBLIC}, schemas)
        notes = _make_tables(old, conn)
        # Sequences that defaults name are there with the tables.
        known = {(o.kind, o.signature) for o in collect.objects(conn)}
        left = [o for o in left if (o.kind, o.signature) not in known]
        left = _make_what_goes(conn, left)
        if left:
            _fail(conn, left, describe_dsn(pair.new.dsn))
        given = _restore(conn, rights_wanted, before, accept_definers=accept_definers)
        return list(dict.fromkeys([*notes, *given]))


def _restore(
    conn: Connection,
    wanted: RightsState,
    before: Collection[tuple[str, str]],
    *,
    accept_definers: bool,
) -> list[str]:
    """Gives new objects the owners, grants and comments of the old database, as far as possible.

    before -- the objects that were there before.

    Returns what was skipped.  Raises UsageError when a role could do more than in the old database.
    """
    made = rights.state(conn, every=True).rights.keys() - before
    # Besides new objects those of the system, and of extensions, whose rights somebody changed.
    only = {k for k, one in wanted.rights.items() if k in made or one.given} | {rights.PUBLIC}
    only |= {k for k in wanted.rights if k[0] == rights.DEFAULTS}
    left = _give_rights(conn, wanted, only, made)
    wider = rights.widened(left, made)
    if wider:
        raise UsageError(
            f"rights of the new database cannot be limited to those of the old one: {wider[0]}",
            detail=f"{shortened(wider)}; nothing was created",
            hint="have an administrator of the new server create what it belongs to, with these"
            " rights revoked; then repeat the command",
        )
    others = [d for d in rights.run_as_others(left) if d.new.key in made]
    if others and not accept_definers:
        one = others[0]
        raise UsageError(
            f"{len(others)} SECURITY DEFINER functions would run as {one.new.owner}: "
            + shortened([str(d.old) for d in others]),
            detail=f"{one.old} runs as its owner, role {one.old.owner}, which cannot be set;"
            " nothing was created",
            hint="londiste migrate check shows what to do; or accept it: --accept-definers",
        )
    return rights.notes(left, rights.state(conn, every=True))


def _give_rights(
    conn: Connection,
    wanted: RightsState,
    only: Collection[tuple[str, str]],
    made: Collection[tuple[str, str]],
) -> list[rights.Difference]:
    """Executes what the server allows; returns the differences that remain."""
    now = rights.state(conn, every=True)
    for statement in [
        *rights.comments(wanted, now, made),
        *rights.statements(rights.compare(wanted, now, only), now),
    ]:
        try:
            with conn.transaction():
                conn.execute(statement.encode())
        except (psycopg.ProgrammingError, psycopg.NotSupportedError) as error:
            # The comparison finds it.
            log.info("%s: %s", statement, from_database(error).message)
    return rights.compare(wanted, rights.state(conn, every=True), only)


def foreseen(old: Connection, new: Connection) -> tuple[Sequence[str], UsageError | None]:
    """What ``create`` will change or leave out of tables, and why it will refuse.  Makes nothing.

    Without owners and grants, which others check.
    """
    found, known = _missing_tables(old, new)
    # Functions and extensions are created before the tables.
    functions = {need.signature for table in found.tables for need in table.needs}
    functions |= {signature for one in found.types for signature, _ in one.needs}
    types = {one.name for one in found.types if one.extension}
    here = replace(known, functions=known.functions | functions, types=known.types | types)
    try:
        return make_tables(found, here, {}, WHOLE - {Part.OWNER, Part.GRANTS}).notes, None
    except UsageError as error:
        return (), error


def _missing_tables(old: Connection, new: Connection) -> tuple[Structures, There]:
    """The replicated tables that the new database lacks, and what it has of what they need."""
    names = {t.name for t in collect.tables(new)}
    missing = [t.name for t in collect.tables(old) if t.name not in names and t.replicated]
    found = read(old, missing)
    return found, there(new, found, {t.name for t in found.tables} | others(found))


def _make_tables(old: Connection, conn: Connection) -> Sequence[str]:
    made = make_tables(*_missing_tables(old, conn), {}, WHOLE)
    for statement in made.statements:
        _execute(conn, statement, describe_dsn(conn.info.dsn))
    return made.notes


def _make_what_goes(conn: Connection, wanted: Sequence[Object], *, last: str = "") -> list[Object]:
    """Creates objects, in rounds as long as one more can be created; returns the others.

    last -- objects after this kind in the order wait.
    """
    limit = max((o.place for o in wanted if o.kind == last), default=2) if last else 9
    left = list(wanted)
    while True:
        rest = [o for o in left if o.place > limit or _refused(conn, o) is not None]
        if len(rest) == len(left):
            return rest
        left = rest


def _refused(conn: Connection, one: Object) -> psycopg.Error | None:
    """Creates an object; returns the error if that fails."""
    assert one.definition is not None
    try:
        with conn.transaction():
            conn.execute(one.definition.encode())
    except (psycopg.ProgrammingError, psycopg.DataError, psycopg.NotSupportedError) as error:
        # Something that it needs is not there yet; anything else is not about the statement.
        return error
    return None


def _fail(conn: Connection, left: Sequence[Object], where: str) -> None:
    error = _refused(conn, left[0])
    ours = LondisteError("") if error is None else from_database(error, where=where)
    names = ", ".join(str(one) for one in left[:_SHOWN])
    raise UsageError(
        f"{len(left)} objects cannot be created in the new database: {names}",
        detail=f"{left[0]}: {ours.message}; nothing was created",
        hint="create the objects they need and repeat the command; or use --schema pg_dump",
    )


def _execute(conn: Connection, text: str, where: str, *, whole: bool = False) -> None:
    """Runs DDL.

    whole -- it has many statements: the error names the one that fails.
    """
    try:
        with conn.transaction():
            conn.execute(text.encode())
    except psycopg.Error as error:
        ours = from_database(error, where=where)
        if type(ours) is not LondisteError and not isinstance(ours, UsageError):
            raise ours from error
        failed = _failing(conn, text) if whole else _one_line(text)
        raise UsageError(
            f"the schema cannot be created in the new database: {ours.message}",
            detail="; ".join(filter(None, [ours.detail, f"at: {failed}" if failed else ""]))
            + "; nothing was created",
            hint="create the objects it needs; or use another pg_dump: --pg-dump PATH; or"
            " --schema create; or create the schema by hand: --schema existing",
        ) from error


def _failing(conn: Connection, text: str) -> str:
    """The object at which a dump fails: creates them one by one and rolls back."""
    try:
        with conn.transaction(force_rollback=True):
            for part in statements(text):
                lines = [line for line in part.splitlines() if not line.startswith("--")]
                found = _one_line(" ".join(lines))
                conn.execute(part.encode())
    except psycopg.Error:
        return found
    return ""


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _STATEMENT_SHOWN else line[: _STATEMENT_SHOWN - 1] + "…"


def rows_in_the_way(conn: Connection, old: DatabaseFacts) -> list[str]:
    """Tables of the new database that the copy would truncate and that have rows."""
    names: list[TableName] = [t.name for t in old.tables if t.kind == "r" or not t.partition]
    return [str(name) for name in collect.with_rows(conn, names)]
