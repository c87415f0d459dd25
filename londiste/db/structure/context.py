"""Context of DDL rendering: the target database, the selected parts, and names in the target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from londiste.db.ddl import literal
from londiste.db.names import TableName, quote
from londiste.db.structure.names import follow, free, mentions
from londiste.db.structure.types import (
    Column,
    ColumnSequence,
    Grant,
    Part,
    Structure,
    Structures,
    There,
)

_MAINTAIN = 170000


@dataclass
class TargetContext:
    """The database for which the DDL is rendered.

    renamed -- tables by their names where they were read, and their names there; those that are
        made and others that are known.
    notes -- grows: what will not be as it was.
    """

    found: Structures
    there: There
    renamed: Mapping[TableName, TableName]
    parts: frozenset[Part]
    notes: list[str] = field(default_factory=list)
    #: (table, name of constraint or index) as read -> name there.
    names: dict[tuple[TableName, str], str] = field(default_factory=dict)
    #: Sequences as read -> there.
    sequences: dict[TableName, TableName] = field(default_factory=dict)
    #: Extended statistics as read -> there.
    statistics: dict[TableName, TableName] = field(default_factory=dict)
    #: Sequences to make; the others are there.
    new_sequences: list[ColumnSequence] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.made = {table.name: table for table in self.found.tables}
        #: Schemas by their names there; one that gets renamed tables alone is as theirs.
        self.schemas = dict(self.found.schemas)
        for name in self.made:
            if name.schema in self.found.schemas:
                self.schemas.setdefault(self.to(name).schema, self.found.schemas[name.schema])
        taken = set(self.there.taken) | {self.to(name) for name in self.made}
        for table in self.found.tables:
            self._name_objects(table, taken)
        self._name_sequences(taken)

    @property
    def made_sequences(self) -> list[ColumnSequence]:
        """The sequences that are created by statements of their own."""
        return self.new_sequences if Part.SEQUENCES in self.parts else []

    def to(self, table: TableName) -> TableName:
        """The name of a table in the target."""
        return self.renamed.get(table, table)

    def has(self, table: TableName) -> bool:
        """Whether a table (by its source name) exists in the target, or is being created."""
        return table in self.made or self.to(table) in self.there.relations

    def attached_to(self, table: Structure) -> tuple[TableName, ...]:
        """The parents of the table in the target, by their source names.

        A partitioned table that is created gets its partitions whatever the parts are: without
        them it could store no row.
        """
        if table.bound is not None and table.parents[0] in self.made:
            return table.parents
        if Part.PARENTS not in self.parts or not all(self.has(p) for p in table.parents):
            return ()
        return table.parents

    def columns_of(self, table: TableName) -> tuple[str, ...]:
        """The columns of a table (by its source name) in the target, or as it is created."""
        if table in self.made:
            return tuple(column.name for column in self.made[table].columns)
        return (self.there.columns or {}).get(self.to(table), ())

    def of(self, table: Structure, name: str) -> str:
        """The target's name of a constraint, index, trigger or rule of a table."""
        known = self.names.get((table.name, name))
        return known or follow(name, table.name.name, self.to(table.name).name)

    def of_check(self, table: Structure, name: str) -> str:
        """The target's name of a check; one of a parent has the same name in its children."""
        for parent in self.attached_to(table):
            above = self.made.get(parent)
            if above and any(one.kind == "c" and one.name == name for one in above.constraints):
                return self.of_check(above, name)
        return self.of(table, name)

    def calls_of_default(self, table: Structure, column: Column) -> list[str]:
        """The functions outside of PostgreSQL that the default of a column calls."""
        wanted = ("function", "defaults", column.name)
        return [n.signature for n in table.needs if (n.kind, n.part, n.object) == wanted]

    def elsewhere(self, text: str) -> TableName | None:
        """A table with another name in the target that a definition names."""
        return next(
            (old for old, new in self.renamed.items() if old != new and mentions(text, old)), None
        )

    def note(self, text: str) -> None:
        """Records a difference from the source, once."""
        if text not in self.notes:
            self.notes.append(text)

    def comment(self, what: str, text: str | None) -> list[str]:
        """COMMENT ON, if there is a comment."""
        if text is None or Part.COMMENTS not in self.parts:
            return []
        return [f"comment on {what} is {literal(text)}"]

    def owner_problem(self, role: str, schema: str | None = None) -> str:
        """Why a role cannot own a new schema, or objects of ``schema``; '' if it can."""
        roles = self.there.roles or {}
        if not roles.get(role):
            return "cannot be set by you" if role in roles else "does not exist"
        if schema is None or self.there.superuser or self._may_create(role, schema):
            return ""
        return (
            f"may not create in schema {schema}: grant create on schema {quote(schema)}"
            f" to {quote(role)}"
        )

    def _may_create(self, role: str, schema: str) -> bool:
        if schema in self.there.schemas:
            return (schema, role) in self.there.creators
        one = self.schemas.get(schema)
        if one is None:
            return False
        creators = {one.owner} if not self.owner_problem(one.owner) else set()
        if Part.GRANTS in self.parts:
            granted = {g.grantee for g in one.grants if g.privilege == "CREATE"}
            if None in granted:
                return True
            creators |= {grantee for grantee in granted if grantee is not None}
        return any((role, creator) in self.there.members for creator in creators)

    def granted(self, on: str, grants: Iterable[Grant]) -> list[str]:
        """GRANT of privileges on one object; missing roles are noted."""
        result = []
        for (grantee, grantable, column), group in groupby(
            grants, key=lambda g: (g.grantee, g.grantable, g.column)
        ):
            if grantee is not None and grantee not in (self.there.roles or {}):
                self.note(f"role {grantee} does not exist: its privileges are skipped")
                continue
            words = [g.privilege for g in group]
            if "MAINTAIN" in words and self.there.version < _MAINTAIN:
                words.remove("MAINTAIN")
                self.note("MAINTAIN is not granted: it needs PostgreSQL 17")
            if not words:
                continue
            what = ", ".join(f"{w} ({quote(column)})" if column else w for w in words)
            who = "public" if grantee is None else quote(grantee)
            option = " with grant option" if grantable else ""
            result.append(f"grant {what} on {on} to {who}{option}")
        return result

    def _name_objects(self, table: Structure, taken: set[TableName]) -> None:
        dest = self.to(table.name)
        for index in table.indexes:
            wanted = follow(index.name, table.name.name, dest.name)
            name = free(wanted, {t.name for t in taken if t.schema == dest.schema})
            taken.add(TableName(dest.schema, name))
            self.names[table.name, index.name] = name
            if index.constraint is not None:
                self.names[table.name, index.constraint] = name
        for one in table.statistics:
            schema = dest.schema if one.name.schema == table.name.schema else one.name.schema
            wanted = follow(one.name.name, table.name.name, dest.name)
            name = free(wanted, {t.name for t in taken if t.schema == schema})
            self.statistics[one.name] = TableName(schema, name)
            taken.add(self.statistics[one.name])

    def _name_sequences(self, taken: set[TableName]) -> None:
        """Owned sequences belong to one table; one that a default only names may exist already."""
        every: dict[TableName, tuple[Structure, ColumnSequence]] = {}
        for table in self.found.tables:
            for one in table.sequences:
                if one.name not in every or one.owned:
                    every[one.name] = (table, one)
        for table, one in every.values():
            dest = self.to(table.name)
            follows = bool(one.owned) or one.name.schema == table.name.schema
            schema = dest.schema if follows else one.name.schema
            wanted = one.name.name
            if one.owned:
                wanted = follow(wanted, table.name.name, dest.name)
            name = TableName(schema, wanted)
            there = name in (self.there.taken if not one.owned else self.there.free_sequences)
            if one.owned == "i" or (not there and name in taken):
                there = False
                name = TableName(
                    schema, free(wanted, {t.name for t in taken if t.schema == schema})
                )
            self.sequences[one.name] = name
            taken.add(name)
            if not there and one.owned != "i":
                self.new_sequences.append(one)


def option_list(options: tuple[str, ...]) -> str:
    """``key=value`` texts of the catalog as a list in parentheses."""
    pairs = []
    for option in options:
        key, _, value = option.partition("=")
        head, dot, rest = key.partition(".")
        name = f"{head}.{quote(rest)}" if dot else quote(key)
        pairs.append(f"{name} = {literal(value)}")
    return f"({', '.join(pairs)})"


def sequence_options(one: ColumnSequence) -> str:
    """START, INCREMENT and so on."""
    return (
        f"start with {one.start} increment by {one.increment} minvalue {one.minimum}"
        f" maxvalue {one.maximum} cache {one.cache}{' cycle' if one.cycle else ' no cycle'}"
    )
