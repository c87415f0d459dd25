"""``add-table --create``: creates missing tables like those of the provider and adds them.

The structure comes from the provider's catalog; the DDL uses the release and the table names of
this node.  It is one transaction, with the registration.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import psycopg
from psycopg.rows import TupleRow

from londiste.db.connection import Connection, describe_dsn
from londiste.db.ddl import comment
from londiste.db.names import TableName, quote
from londiste.db.queries import fetch, tuples
from londiste.db.structure.context import TargetContext
from londiste.db.structure.introspect import read, schemas, there
from londiste.db.structure.render import lacking, make, others
from londiste.db.structure.schemas import statements
from londiste.db.structure.types import BARE, WHOLE, Lack, Made, Part, PendingKey, Structures, There
from londiste.error_origin import innermost_function, raised_by_code, unqualified_hint
from londiste.errors import BadOption, LondisteError, UnknownTable, UsageError, from_database
from londiste.orchestration.connections import Connections
from londiste.orchestration.lock_retry import with_table
from londiste.orchestration.steps import Step, remaining
from londiste.replication import sqlapi as tables
from londiste.replication.model import ReplicatedTable, TableOptions

#: Tables that a line about a step names.
_SHOWN = 5


class Registers(Step, Protocol):
    """A step that can also be a part of another one's transaction."""

    def add(self, conn: Connection) -> None: ...


def parts(options: TableOptions) -> frozenset[Part]:
    """The parts of tables that the options select.  Raises BadOption."""
    if options.create_without and not options.create_full:
        raise BadOption(
            "--create-without requires --create-full",
            hint="use --create-full; --create creates what the table needs to be written",
        )
    if options.create_needs and not options.create_full:
        raise BadOption(
            "--create-needs requires --create-full",
            hint="use --create-full; --create creates what the table needs to be written",
        )
    unknown = sorted(set(options.create_without) - {part.value for part in Part})
    if unknown:
        raise BadOption(
            f"--create-without {unknown[0]}: unknown part",
            hint=f"use some of {', '.join(part.value for part in Part)}",
        )
    without = {Part(name) for name in options.create_without}
    return WHOLE - without if options.create_full else BARE


def ddl(
    provider: Connection,
    local: Connection,
    wanted: Mapping[TableName, TableName],
    wanted_parts: frozenset[Part],
    known: Mapping[TableName, TableName] | None = None,
    *,
    needs: bool = False,
    allow_code: bool = False,
) -> Made:
    """DDL that creates tables of the provider on this node.  Changes nothing.

    wanted -- name on the provider to name here; known -- the same for tables that are here.
    needs -- also create the functions and extensions that the tables need.
    allow_code -- such functions may be those of the provider, which run with rights of this node.

    Raises UnknownTable, UsageError (a table needs objects that are missing and cannot be created,
    or functions without ``allow_code``, or has a partition that is a foreign table).
    """
    found = read(provider, wanted)
    missing = [name for name in wanted if name not in {table.name for table in found.tables}]
    if missing:
        raise UnknownTable(
            f"table {missing[0]} does not exist in {describe_dsn(provider.info.dsn)}",
            hint="create the table on this node, or correct the name",
        )
    for row in fetch(provider, "foreign_partitions", tables=[name.quoted for name in wanted]):
        raise partition_refused(row, wanted, describe_dsn(local.info.dsn))
    renamed = {**(known or {}), **wanted}
    names = {renamed.get(t.name, t.name) for t in found.tables}
    names |= {renamed.get(name, name) for name in others(found)}
    here = there(local, found, names)
    if not needs:
        return make(found, here, renamed, wanted_parts)
    first, functions, found, here = _needs(provider, local, found, names, renamed, wanted_parts)
    made = make(found, here, renamed, wanted_parts, needs=True)
    if functions and not allow_code:
        # Before any statement: an index may call a function when it is created.
        code = [f"function {name}" for name in functions]
        raise code_refused(code, describe_dsn(local.info.dsn))
    rest = [one for one in made.statements if one not in first.statements]
    return replace(
        made,
        statements=(*first.statements, *_with_functions(rest, list(functions.values()))),
        notes=tuple(dict.fromkeys((*first.notes, *made.notes))),
    )


@dataclass(frozen=True)
class Foreseen:
    """What lets the creation of tables be refused.

    code -- of the provider; lacks -- objects that this node lacks, and does not create.
    """

    code: list[str]
    lacks: list[Lack]


def foresee(
    provider: Connection,
    local: Connection,
    wanted: Mapping[TableName, TableName],
    wanted_parts: frozenset[Part],
    *,
    needs: bool = False,
) -> Foreseen:
    """What would be refused when these tables are created.  Changes nothing.

    Read from the catalog of the provider, so before anything is created.  The creation itself
    checks again, by the catalog of this node.
    """
    found = read(provider, wanted)
    there_now = {table.name for table in found.tables}
    names = {wanted.get(name, name) for name in there_now} | set(others(found))
    functions: Mapping[str, str] = {}
    if needs:
        _, functions, found, here = _needs(provider, local, found, names, wanted, wanted_parts)
    else:
        here = there(local, found, names)
    lacks = lacking(found, here, wanted, wanted_parts)
    quoted = [name.quoted for name in there_now]
    rows = fetch(provider, "created_code", tables=quoted)
    parts = [
        f"{row['object']} ({row['code']})"
        for row in rows
        if wanted_parts == WHOLE or _is_bare(row["object"], row["code"])
    ]
    return Foreseen([*(f"function {name}" for name in functions), *parts], lacks)


def _is_bare(part: str, code: str) -> bool:
    """Whether a part is created with columns alone: no default calls a function of the user."""
    return part.startswith(("column ", "domain ", "type ")) and "." not in code.split("(")[0]


def _needs(
    provider: Connection,
    local: Connection,
    found: Structures,
    names: Iterable[TableName],
    renamed: Mapping[TableName, TableName],
    wanted_parts: frozenset[Part],
) -> tuple[Made, dict[str, str], Structures, There]:
    """Schemas and extensions, statements for functions by name, and what exists after them.

    The structures come back with the schemas of functions and extensions, which ``make`` creates
    again where it needs them: whoever joins both omits the second statement.

    names -- of the tables on this node, and of those that they refer to.
    """
    lacks = lacking(found, there(local, found, names), renamed, wanted_parts)
    wanted = [one.name for one in lacks if one.kind == "function" and not one.extension]
    rows = tuples(provider, "function_definitions", signatures=wanted)
    wanted_schemas = {row[1] for row in rows}
    found = replace(found, schemas={**found.schemas, **schemas(provider, wanted_schemas)})
    here = there(local, found, names)
    # One that is there, in another schema or of an older version, is not created again.
    owned = sorted({x.extension for x in lacks if x.extension} - here.extensions.keys())
    extensions = [found.extensions[name] for name in owned]
    wanted_schemas |= {one.schema for one in extensions if one.schema}
    target = TargetContext(found, here, renamed, wanted_parts)
    first = statements(target, wanted_schemas - {"public", "pg_catalog"})
    for one in extensions:
        within = f" with schema {quote(one.schema)}" if one.schema else ""
        first.append(f"create extension if not exists {quote(one.name)}{within}")
    made = {row[0] for row in rows} | {o.name for o in lacks if o.extension in owned}
    types = {t.name for t in found.types if t.extension in owned and t.name not in here.types}
    here = replace(
        here,
        functions=here.functions | made,
        types=here.types | types,
    )
    if rows:
        first.append("set local check_function_bodies = off")
    made_first = Made(tuple(first), notes=tuple(target.notes))
    return made_first, {row[0]: row[2].strip() for row in rows}, found, here


def code_refused(parts: Sequence[str], where: str) -> UsageError:
    """The error for code of the provider that nobody has accepted."""
    return UsageError(
        f"the tables contain code of the provider that would run in {where}: {listed(parts)}",
        detail="the worker runs it with its rights when it writes rows; nothing was created",
        hint="check that code, then repeat the command with --allow-code (in the file of a cascade:"
        " allow_code = true in [tables]); or create the tables yourself",
    )


def partition_refused(
    row: Mapping[str, str], wanted: Mapping[TableName, TableName], where: str
) -> UsageError:
    """The error for a partition that is a foreign table.

    row -- of ``sql/queries/foreign_partitions.sql``; wanted -- as in ``ddl``.
    """
    dest = next(there for name, there in wanted.items() if name.quoted == row["table_name"])
    return UsageError(
        f"table {dest} cannot be created: partition {row['partition']} is a foreign table",
        detail="--create creates ordinary partitions only, and rows of that one would have none;"
        " nothing was created",
        hint=f"create table {dest} in {where} yourself, with a partition for these rows; then"
        " repeat the command",
    )


def parent_refused(row: Mapping[str, str]) -> UsageError:
    """The error for a parent of a role that gains rights by a new partition or child.

    row -- of ``sql/queries/owners_without_rights.sql``.
    """
    return UsageError(
        f"table {row['table_name']} would get a partition or child, and belongs to {row['owner']}",
        detail="code of its owner, as functions of the partition key, would run with the rights of"
        " who creates and writes the new table; nothing was created",
        hint="--create-without parents creates a separate table; or, if the role is trusted, repeat"
        " the command with --allow-code (in the file of a cascade: allow_code = true in [tables])",
    )


def type_refused(rows: Sequence[Mapping[str, str]], where: str) -> UsageError:
    """The error for types of roles that would gain rights by them.

    rows -- of ``sql/queries/types_of_others.sql``.
    """
    first = rows[0]
    remedies = "; ".join(dict.fromkeys(row["remedy"] for row in rows))
    return UsageError(
        f"type {first['type']} of table {first['table_name']} belongs to {first['owner']}",
        detail=f"{first['owner']} could add code to it, which would run with the rights of"
        f" {first['writer']} when rows are written; nothing was created",
        hint=f"as an administrator of {where}: {remedies}; or, if the role is trusted, repeat"
        " the command with --allow-code (in the file of a cascade: allow_code = true in [tables])",
    )


def _with_functions(statements: Sequence[str], functions: Sequence[str]) -> list[str]:
    """Each function before domains and tables, and after the types that it names."""
    found = list(statements)
    for function in functions:
        at = 0
        for number, text in enumerate(found):
            named = text.startswith("create type ") and re.search(
                rf"(?<!\w){re.escape(_last_name(text))}(?!\w)", function
            )
            if text.startswith("create schema ") or named:
                at = number + 1
        found.insert(at, function)
    return found


def _last_name(statement: str) -> str:
    """The unquoted last part of the name in ``create type``."""
    return statement.removeprefix("create type ").split(" as ")[0].rsplit(".", 1)[-1].strip('"')


def known_names(
    theirs: Mapping[TableName, ReplicatedTable], ours: Mapping[TableName, ReplicatedTable]
) -> dict[TableName, TableName]:
    """Tables on both nodes: their name in the provider's database, and here."""
    return {
        table.dest: ours[name].dest
        for name, table in theirs.items()
        if table.local and name in ours and ours[name].local
    }


@dataclass(frozen=True)
class CreateTables:
    """Creates tables on one node and adds them, all or none.

    created -- ``dests`` and their partitions.
    """

    node: str
    dsn: str = field(repr=False)
    statements: tuple[str, ...]
    pending: tuple[PendingKey, ...]
    dests: tuple[TableName, ...]
    adds: tuple[Registers, ...]
    objects: tuple[str, ...] = ()
    allow_code: bool = False
    parents: tuple[TableName, ...] = ()
    created: tuple[TableName, ...] = ()

    def describe(self) -> str:
        objects = f" with {listed(self.objects)}" if self.objects else ""
        names = listed(list(map(str, self.dests)))
        if len(self.dests) > _SHOWN:
            more = f", with {len(self.objects)} sequences and types" if self.objects else ""
            return f"{self.node}: create and add {len(self.dests)} tables: {names}{more}"
        word = "table" if len(self.dests) == 1 else "tables"
        rest = "; ".join(add.describe().removeprefix(f"{self.node}: ") for add in self.adds)
        return f"{self.node}: create {word} {names}{objects} and {rest}"

    def explain(self) -> list[str]:
        """The statements as text."""
        waiting = [
            comment(f"when {key.to_table} is in sync: {key.definition}") for key in self.pending
        ]
        adds = [comment(add.describe().removeprefix(f"{self.node}: ")) for add in self.adds]
        return [*(f"{text};" for text in self.statements), *waiting, *adds]

    def done(self, sites: Connections) -> bool:
        return not remaining(self.adds, sites)

    def run(self, sites: Connections) -> None:
        """Raises LockTimeout when a table that is referred to stays locked."""
        with_table(sites, self.dsn, self.dests[0], self.node, self._work)

    def _work(self, conn: Connection) -> None:
        if not self.allow_code:
            above = [name.quoted for name in self.parents]
            for row in fetch(conn, "owners_without_rights", tables=above) if above else ():
                # Before any statement: attaching a partition calls functions of the key.
                raise parent_refused(row)
        self._create(conn)
        if not self.allow_code:
            names = [name.quoted for name in self.created]
            found = [f"{row['object']} ({row['code']})" for row in self._code(conn, names)]
            if found:
                raise code_refused(found, describe_dsn(self.dsn))
            # Their owners could add code later, of which nobody is asked.
            rows = fetch(conn, "types_of_others", tables=names)
            if rows:
                raise type_refused(rows, describe_dsn(self.dsn))
        for key in self.pending:
            tables.add_pending_fkey(conn, key.from_table, key.to_table, key.name, key.definition)
        for add in self.adds:
            add.add(conn)

    @staticmethod
    def _code(conn: Connection, names: Sequence[str]) -> list[dict[str, str]]:
        """Parts of the created tables that run code; read from this node's own catalog."""
        return fetch(conn, "created_code", tables=list(names))

    def _create(self, conn: Connection) -> None:
        """Executes the statements without waiting for the answer to each."""
        fetch(conn, "forget_own_tablespace")
        sent: list[psycopg.Cursor[TupleRow]] = []
        try:
            with conn.pipeline():
                for statement in self.statements:
                    # Made of the catalog of another node, where identifiers are quoted already.
                    sent.append(conn.execute(statement.encode()))
        except psycopg.Error as error:
            # After the one that failed none has an answer.
            done = sum(cursor.pgresult is not None for cursor in sent)
            raise _explained(error, self.statements[done], self.node, self.dsn) from error


def listed(names: Sequence[str]) -> str:
    """The first names, and the number of the others."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _explained(error: psycopg.Error, statement: str, node: str, dsn: str) -> LondisteError:
    ours = from_database(error, where=describe_dsn(dsn))
    if type(ours) is not LondisteError:
        return ours
    return UsageError(
        f"node {node}: cannot create tables: {ours.message}",
        detail=f"{ours.detail}; nothing was created; the statement: {statement}",
        hint=_remedy(error) + _without(statement),
    )


#: SQLSTATEs of names that the server does not find.
_MISSING = {"3F000", "42703", "42704", "42883", "42P01"}


def _remedy(error: psycopg.Error) -> str:
    """What to do about an error of a statement that creates a table."""
    if hint := unqualified_hint(error):
        return hint
    if raised_by_code(error):
        name = innermost_function(error)
        return (
            f"{f'function {name}' if name else 'a function of this database'} has raised it: change"
            " it, or disable what calls it while the tables are created: alter event trigger …"
            " disable"
        )
    if error.sqlstate in _MISSING:
        return "create the missing object first"
    return "remove the cause, then repeat the command"


#: The part of a table by the kind of object that a statement creates.
_PART_OF = {
    "index": Part.INDEXES,
    "policy": Part.POLICIES,
    "rule": Part.RULES,
    "statistics": Part.STATISTICS,
    "trigger": Part.TRIGGERS,
}


def _without(statement: str) -> str:
    """The option that excludes what a statement creates; '' if there is none."""
    kind = re.match(r"create (?:unique |constraint )?(\w+)", statement, re.IGNORECASE)
    part = _PART_OF.get(kind[1].lower()) if kind else None
    return f", or exclude that part with add-table: --create-without {part}" if part else ""
