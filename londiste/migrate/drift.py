"""Schema drift between the two databases of a migration, found before the switch.

DDL that an administrator runs in one of the two databases is in no event.  So ``verify`` and the
switch compare columns, keys, indexes, constraints, triggers and sequences again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from londiste.daemon.waiting import wait_until
from londiste.db.connection import Connection
from londiste.db.names import TableName, quote
from londiste.db.structure import releases
from londiste.db.structure.introspect import read
from londiste.db.structure.types import Structure
from londiste.migrate import rights
from londiste.migrate.rights import RightsState
from londiste.monitor.doctor import collect
from londiste.monitor.doctor.checks.structure import differing
from londiste.monitor.doctor.facts import SequenceKind, Table
from londiste.monitor.queues.model import Finding, Severity
from londiste.replication import sqlapi as tables
from londiste.replication.model import SequenceValue

#: Id of the findings about owners and grants.
RIGHTS = "rights"

_KINDS = {
    "u": "unique constraint",
    "x": "exclusion constraint",
    "c": "check constraint",
    "f": "foreign key",
}


@dataclass(frozen=True)
class ObservedTable:
    """One database.

    pending -- foreign keys that are dropped during a copy: table and name; they will be restored.
    copying -- tables whose keys, indexes and constraints a running copy has dropped.
    version -- ``server_version_num``: another release may print the same expression differently.
    rights -- owners and grants.
    xml -- the server has values of type xml.
    """

    tables: tuple[Table, ...] = ()
    structures: tuple[Structure, ...] = ()
    sequences: tuple[SequenceKind, ...] = ()
    pending: frozenset[tuple[str, str]] = frozenset()
    copying: frozenset[TableName] = frozenset()
    version: int = 180000
    rights: RightsState = field(default_factory=RightsState)
    xml: bool = True


@dataclass(frozen=True)
class _Part:
    """A part of a table.

    text -- its definition without its name.
    since -- ``server_version_num`` of the release that it needs; 0: all supported ones have it.
    """

    kind: str
    name: str
    text: str
    since: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def look(conn: Connection) -> ObservedTable:
    """Reads the catalog of one database.  Takes no lock that a writer waits for."""
    found = collect.tables(conn)
    names = [t.name for t in found if t.replicated and not t.partition]
    return ObservedTable(
        found,
        read(conn, names).tables,
        collect.sequences(conn),
        collect.pending_keys(conn),
        collect.copying(conn),
        conn.info.server_version,
        rights.state(conn),
        collect.has_xml(conn),
    )


def differences(root: ObservedTable, other: ObservedTable, names: tuple[str, str]) -> list[Finding]:
    """Pure: objects missing or different in database ``other``; critical ones stop the switch.

    names -- of the root's database and of the other one: old, new.
    """
    # What a copy has dropped it restores at its end.
    ready = [t for t in other.tables if t.name not in other.copying]
    found = list(differing(root.tables, ready, names, xml=other.xml))
    there = {s.name: s for s in other.structures if s.name not in other.copying}
    for structure in root.structures:
        mine = there.get(structure.name)
        if mine is not None and structure.bound is None:
            found += _table(structure, mine, root, other, names[1])
    found += _pending(other, names[1])
    found += _sequences(root, other, names[1])
    found += _rights(root.rights, other.rights, names[1])
    return sorted(found, key=lambda one: -one.severity)


def _table(
    theirs: Structure, mine: Structure, root: ObservedTable, other: ObservedTable, name: str
) -> Iterator[Finding]:
    wanted, there = list(_parts(theirs)), list(_parts(mine))
    by_name = {(p.kind, p.name): p for p in there}
    texts = {(p.kind, p.text) for p in there}
    pending = {key for table, key in other.pending if table == str(theirs.name)}
    same_release = root.version // 10000 == other.version // 10000
    for part in wanted:
        if part.kind == "foreign key" and part.name in pending:
            continue
        known = by_name.get((part.kind, part.name))
        if known is None and (part.kind, part.text) not in texts:
            yield _missing(theirs.name, part, other.version, name)
        elif known is not None and known.text != part.text and same_release:
            yield _otherwise(theirs.name, part, known, name)
    taken = {(p.kind, p.name) for p in wanted}
    texts = {(p.kind, p.text) for p in wanted}
    for part in there:
        if (part.kind, part.name) not in taken and (part.kind, part.text) not in texts:
            too_old = part.since > root.version
            create = "accept it" if too_old else f"create it in the other one: {part.text}"
            yield Finding(
                Severity.WARNING,
                "structure",
                f"table {theirs.name} has {part} in the {name} database alone",
                "rows that the other database accepts may be refused, or changed",
                f"drop it in the {name} database, or {create}",
                "",
            )


def _pending(other: ObservedTable, name: str) -> Iterator[Finding]:
    for table, key in sorted(other.pending):
        yield Finding(
            Severity.WARNING,
            "structure",
            f"table {table}: foreign key {key} is not restored yet in the {name} database",
            "a copy has dropped it; the worker restores it when both tables are in sync",
            "wait; londiste migrate switch restores keys of tables that are not replicated",
            "",
        )


def _missing(table: TableName, part: _Part, version: int, name: str) -> Finding:
    what = f"table {table} has no {part} in the {name} database"
    if part.since > version:
        return Finding(
            Severity.WARNING,
            "structure",
            what,
            f"it needs {releases.name(part.since)}; rows that violate it are accepted there, and"
            " the other database may refuse them",
            "accept it, and let the application observe it",
            "",
        )
    return Finding(
        Severity.CRITICAL,
        "structure",
        what,
        "the other database has it: it was created or dropped on one side only",
        f"create it in the {name} database: {part.text}",
        "",
    )


def _otherwise(table: TableName, part: _Part, known: _Part, name: str) -> Finding:
    return Finding(
        Severity.WARNING,
        "structure",
        f"table {table} has {part} with another definition in the {name} database",
        f"it is {known.text}",
        f"change it in the {name} database to: {part.text}",
        "",
    )


def _parts(table: Structure) -> Iterator[_Part]:
    """The parts of a table that DDL adds and drops one by one; its key is compared by columns."""
    for column in table.columns:
        if column.not_null:
            since = releases.of_not_null(column)
            yield _Part("NOT NULL of column", column.name, f"{quote(column.name)} not null", since)
        if column.default is not None and not column.generated:
            yield _Part("default of column", column.name, f"default {column.default}")
        if column.identity:
            kind = "always" if column.identity == "a" else "by default"
            yield _Part("identity of column", column.name, f"generated {kind} as identity")
    for constraint in table.constraints:
        if constraint.kind in _KINDS and not constraint.by_parent:
            since = releases.of_constraint(table, constraint)
            kind = _KINDS[constraint.kind]
            yield _Part(kind, constraint.name, constraint.definition, since)
    for index in table.indexes:
        if index.constraint is None and index.parent is None and index.valid:
            text = index.definition.replace(f" {quote(index.name)} ON ", " ON ", 1)
            yield _Part("index", index.name, text, releases.of_index(index))
    for trigger in table.triggers:
        if not trigger.cloned:
            text = trigger.definition.replace(f" {quote(trigger.name)} ", " ", 1)
            fires = {"D": " (disabled)", "R": " (replica)", "A": " (always)"}
            yield _Part("trigger", trigger.name, text + fires.get(trigger.enabled, ""))
    for policy in table.policies:
        text = f"{policy.command} using {policy.using} check {policy.check}"
        yield _Part("policy", policy.name, text)


def _sequences(root: ObservedTable, other: ObservedTable, name: str) -> Iterator[Finding]:
    there = {s.name: s for s in other.sequences}
    for sequence in root.sequences:
        mine = there.get(sequence.name)
        if mine is None:
            yield Finding(
                Severity.CRITICAL,
                "sequences",
                f"sequence {sequence.name} does not exist in the {name} database",
                "it was created or dropped on one side only",
                f"create it in the {name} database, then londiste migrate start adds it",
                "",
            )
        elif mine != sequence:
            yield Finding(
                Severity.WARNING,
                "sequences",
                f"sequence {sequence.name} is {mine.words} in the {name} database, and"
                f" {sequence.words} in the other one",
                "it may end earlier, or return a value twice",
                f"alter sequence {sequence.name.quoted} in one of them",
                "",
            )


def _rights(root: RightsState, other: RightsState, name: str) -> Iterator[Finding]:
    for words, why, objects in rights.in_words(rights.compare(root, other), other):
        yield Finding(
            Severity.WARNING,
            RIGHTS,
            f"{words.format(name=name)}: {objects}",
            why,
            f"compare them with \\dp, \\df+ and \\dn+ of psql; correct them in the {name} database",
            "",
        )


def behind(
    root: list[SequenceValue], other: list[SequenceValue], kinds: tuple[SequenceKind, ...]
) -> list[TableName]:
    """Pure: sequences of the other database that would return a value again."""
    there = {one.name: one for one in other}
    descends = {kind.name for kind in kinds if kind.increment < 0}
    cycles = {kind.name for kind in kinds if kind.cycle}
    found = []
    for one in root:
        mine = there.get(one.name)
        if mine is None or one.name in cycles:
            continue
        sign = -1 if one.name in descends else 1
        if (sign * mine.last_value, not mine.unused) < (sign * one.last_value, not one.unused):
            found.append(one.name)
    return found


def wait_for_sequences(
    root: Connection, other: Connection, queue: str, *, timeout: float, name: str
) -> list[Finding]:
    """Sequences of the other database that do not reach the root's values in ``timeout`` seconds.

    The root's values at the start count: it publishes further ones each second.
    """
    values, kinds = tables.sequence_values(root, queue), collect.sequences(root)
    late: list[TableName] = []

    def arrived() -> bool:
        late[:] = behind(values, tables.sequence_values(other, queue), kinds)
        return not late

    wait_until(arrived, timeout)
    return [
        Finding(
            Severity.CRITICAL,
            "sequences",
            f"sequence {one} of the {name} database lags behind that of the other one",
            "it would return values again that rows already have",
            "find out why it was set back; londiste migrate start must be running",
            "",
        )
        for one in late
    ]
