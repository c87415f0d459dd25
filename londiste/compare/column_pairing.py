"""Column pairing of a comparison: columns, their types, and the key that finds rows.

Equal is what has the same text in a session with pinned settings: -0 is not 0, 1.0 is not 1.00 and
JSON is equal when it is written equally, because replication carries texts.  Where the types of a
column differ, the root's value is read as the type here first, as replication does when it writes
it: an int4 equals an int8, a timestamp the timestamptz of it in UTC, 1 in a numeric(5,2) is 1.00.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from londiste.db import catalog
from londiste.db.connection import Connection
from londiste.db.ddl import line_name, line_type
from londiste.db.names import TableName, argument, quote
from londiste.db.relation import shapes
from londiste.engine.row_hash import OTHER, TEXT, form_of, is_single_byte, server_encoding
from londiste.errors import StateError, UnknownTable
from londiste.handlers.base import ALL, TableRules
from londiste.replication.commands.column_checks import tells_apart, to_store

#: Types whose order is the same on every server, by groups that can be compared with each other.
_ORDERED = {
    "smallint": "number",
    "integer": "number",
    "bigint": "number",
    "numeric": "number",
    "oid": "oid",
    "date": "time",
    "timestamp without time zone": "time",
    "timestamp with time zone": "time",
    "time without time zone": "clock",
    "uuid": "uuid",
    "bytea": "bytea",
    "boolean": "boolean",
}


@dataclass(frozen=True)
class TablePair:
    """A replicated table: its name on the root, its table on the node, and its rules.

    unknown -- columns whose values other nodes change on the way.
    beside -- the node's table keeps rows of others (skip_truncate): a row that the root does not
        have may be one of them.
    """

    table: TableName
    dest: TableName
    wants: TableRules = ALL
    unknown: frozenset[str] = frozenset()
    beside: bool = False


@dataclass(frozen=True)
class Pairing:
    """How two tables are compared; plain data, for tasks.

    columns -- compared, in the root's order; types -- their types here.
    read_as -- these without domains: a cast to a domain would run its checks with our rights.
    root, node -- SQL expressions of them on each side; forms -- of both in the text of a row.
    key -- those of them by which a row is found; none: by all of them.
    key_types -- types that hold the values of both sides.
    root_equals, node_equals -- SQL that a value follows: the column of the key on each side, and
        the operator of its index.
    same_key_types -- the columns of the key have the same types on both sides.
    ordered -- the key has the same order on both sides, so that ranges of it can be compared.
    root_where, node_where -- rows of each side that are compared.
    wanted -- row filter of the table, on the root.
    masked -- columns whose values the handler changes on their way; compared by changing them.
    unknown -- columns that have values here which cannot be worked out from the root's.
    skipped -- columns that one side has alone, or that cannot be compared.
    unread -- those of them that the root has, and whose values replication carries.
    lacking -- those of them that this node does not store: their values are lost.  None where only
        rows are counted.
    generated -- name, type and kind of those of them that are generated here.
    computed -- those that are generated on both sides, with other expressions.
    lossy -- compared columns whose types here may keep only a part of the root's values.
    unique_here -- this node never has two rows of a key; it can if the key is deferrable, which
        nobody checks where triggers are silent, as replication's are.
    only_here -- rows have values here that the root does not have.
    root_children, node_children -- partitioned: the rows of the partitions are the table's.
    """

    pair: TablePair
    columns: tuple[str, ...]
    types: tuple[str, ...]
    read_as: tuple[str, ...]
    root: tuple[str, ...]
    node: tuple[str, ...]
    forms: tuple[str, ...]
    key: tuple[str, ...]
    key_types: tuple[str, ...]
    root_equals: tuple[str, ...]
    node_equals: tuple[str, ...]
    ordered: bool
    same_key_types: bool
    root_where: str = ""
    node_where: str = ""
    wanted: str = ""
    masked: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    skipped: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    generated: tuple[tuple[str, str, str], ...] = ()
    computed: tuple[str, ...] = ()
    lossy: tuple[str, ...] = ()
    unique_here: bool = False
    only_here: bool = False
    root_children: bool = False
    node_children: bool = False

    @property
    def name(self) -> str:
        """What the table is called in the queue."""
        return str(self.pair.table)

    @property
    def found_by(self) -> tuple[str, ...]:
        """The columns of the key, or all."""
        return self.key or self.columns

    def expressions(self, columns: Sequence[str], *, root: bool) -> tuple[str, ...]:
        """SQL of some of the columns on one side."""
        side = dict(zip(self.columns, self.root if root else self.node, strict=True))
        return tuple(side[name] for name in columns)

    def source(self, *, root: bool) -> str:
        """The FROM clause of one side."""
        children = self.root_children if root else self.node_children
        name = self.pair.table if root else self.pair.dest
        return f"from {'' if children else 'only '}{name.quoted}"

    def type_of(self, column: str) -> str:
        """The type of a compared column on the node, without domains."""
        return self.read_as[self.columns.index(column)]


def shared_columns(
    root: Sequence[catalog.Column], node: Sequence[catalog.Column], wants: TableRules = ALL
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(columns both sides store, in the root's order; columns only one side has).

    Generated columns, which each side computes itself, and columns that this node excludes are
    ignored.
    """
    here = {c.name for c in node if not c.generated and wants.keeps(c.name)}
    there = [c.name for c in root if not c.generated and wants.keeps(c.name)]
    both = tuple(name for name in there if name in here)
    return both, tuple(sorted(here.symmetric_difference(there)))


def computed_otherwise(
    root: Sequence[catalog.Column], node: Sequence[catalog.Column], wants: TableRules = ALL
) -> tuple[str, ...]:
    """Generated columns that may have other values for equal rows.

    Expressions are texts: a release may write one of the same meaning in another way.
    """
    there, here = (
        {c.name: (c.read_as, c.default) for c in side if c.generated and wants.keeps(c.name)}
        for side in (root, node)
    )
    return tuple(sorted(name for name in there if name in here and there[name] != here[name]))


def ordered_alike(root: catalog.Column, node: catalog.Column) -> bool:
    """Whether values of a column stand in the same order on both sides, whatever the servers."""
    family = _ORDERED.get(_bare(root.type))
    return family is not None and family == _ORDERED.get(_bare(node.type))


#: Narrow before wide, of the types that are ordered alike though they are not the same.
_WIDTH = [
    *("smallint", "integer", "bigint", "numeric"),
    *("date", "timestamp without time zone", "timestamp with time zone"),
]


def wider(one: str, other: str) -> str:
    """The type, without a modifier, that holds the values of both."""
    names = [_bare(one), _bare(other)]
    if names[0] != names[1] and all(name in _WIDTH for name in names):
        return max(names, key=_WIDTH.index)
    return other if one != other else names[0] if names[0] in _ORDERED else one


def own_expression(column: catalog.Column, version: int) -> str:
    """SQL that gives a column's value with the text that each release writes.

    version -- of the server.
    """
    name = quote(column.name)
    if column.read_as != '"char"' or version >= catalog.CHAR_ESCAPES:
        return name
    # Before, a value above 127 is a byte that is no text.
    octal = f"encode(charsend({name}), 'escape')"
    return f"case when {name}::int4 < 0 then {octal} else {name}::text end"


def root_expression(root: catalog.Column, node: catalog.Column, version: int) -> str:
    """SQL that gives the root's value as replication would store it on the node.

    version -- of the root's server.
    """
    name = own_expression(root, version)
    if root.read_as == node.read_as or not (_builtin(root) and _builtin(node)):
        return name
    # By way of the text of the value, as an event carries it; format() takes NULL for ''.
    value = as_stored(f"format('%s', {name})", node.read_as)
    return f"case when {name} is not null then {value} end"


def _forms(
    root: Connection, node: Connection, columns: Sequence[tuple[catalog.Column, catalog.Column]]
) -> tuple[str, ...]:
    """The form of each column in the text of a row, the same on both sides."""
    alike = server_encoding(root) == server_encoding(node)
    forms = (
        form_of(_bare(here.read_as)) if there.read_as == here.read_as else OTHER
        for there, here in columns
    )
    # A text has another length in another encoding.
    return tuple(OTHER if form == TEXT and not alike else form for form in forms)


def is_lossy(root: catalog.Column, node: catalog.Column) -> bool:
    """Whether different values of the root may be one value in the type here."""
    # Of other types the texts are compared.
    builtin = _builtin(root) and _builtin(node)
    return builtin and not tells_apart(node.read_as, root.read_as)


def _builtin(column: catalog.Column) -> bool:
    """Whether the type, or the one below a domain, is of PostgreSQL: it is named without schema."""
    return column.builtin or "." not in column.read_as


def require_columns(table: Pairing) -> None:
    """Raises StateError if this node does not store all columns that replication carries."""
    if table.lacking:
        raise StateError(
            f"table {table.name}: this node does not store columns of the root:"
            f" {', '.join(table.lacking)}",
            hint=to_store_columns(table),
        )


def to_store_columns(table: Pairing) -> str:
    """Pure: for a hint, what makes this node store the columns that it lacks."""
    name = argument(table.name)
    ways = []
    if len(table.generated) < len(table.lacking):
        ways.append(f"londiste columns {name} --add")
    if table.generated:
        ways.append(to_store(table.pair.table, table.pair.dest, table.generated))
    return "; and ".join(ways)


def pairing(
    root: Connection, node: Connection, pair: TablePair, *, only_rows: str = "", count_only: bool
) -> Pairing:
    """Reads both catalogs.

    only_rows -- SQL condition over the rows to compare, on both sides.
    Raises UnknownTable when a table does not exist on one of the sides, StateError where texts
    cannot be compared.
    """
    _require_comparable(root, node)
    wants = pair.wants
    root_info, there = _columns(root, pair.table, "on the root")
    node_info, here = _columns(node, pair.dest, "on this node")
    names, skipped = shared_columns(there, here, wants)
    computed = computed_otherwise(there, here, wants)
    # Rules give others another name here.
    carried = {c.name for c in there if not c.generated} - dict(wants.renamed).keys()
    lacking = () if count_only else tuple(name for name in skipped if name in carried)
    skipped = tuple(sorted({*skipped, *computed}))
    left, right = {c.name: c for c in there}, {c.name: c for c in here}
    own_key, checked = _own_key(node, node_info)
    key = own_key or catalog.key(root, pair.table)
    if not set(key) <= set(names):
        key = ()
    masked, unknown = wants.changed & set(names), pair.unknown & set(names)
    if masked and (not key or unknown or masked & set(key)):
        # Without an unchanged key rows cannot be matched.
        unknown, masked = masked | unknown, frozenset()
    if unknown:
        skipped = tuple(sorted({*skipped, *unknown}))
        names = tuple(name for name in names if name not in unknown)
        key = key if set(key) <= set(names) else ()
    if not names and not count_only:
        raise StateError(
            f"table {pair.table}: no column in common with the root",
            hint=f"compare row counts only: londiste compare {argument(pair.table)} --count-only",
        )
    return Pairing(
        pair,
        columns=names,
        types=tuple(right[name].type for name in names),
        read_as=tuple(right[name].read_as for name in names),
        # What is changed on its way gets its type afterwards.
        root=tuple(
            quote(n)
            if n in masked
            else root_expression(left[n], right[n], root.info.server_version)
            for n in names
        ),
        node=tuple(own_expression(right[n], node.info.server_version) for n in names),
        forms=_forms(root, node, [(left[n], right[n]) for n in names]),
        key=key,
        key_types=tuple(wider(left[n].read_as, right[n].read_as) for n in key),
        root_equals=_equals(root, pair.table, [left[n] for n in key]),
        node_equals=_equals(node, pair.dest, [right[n] for n in key]),
        # A NULL, which no primary key has, would be in no range.
        ordered=bool(key)
        and all(ordered_alike(left[n], right[n]) for n in key)
        and all(left[n].not_null and right[n].not_null for n in key),
        same_key_types=all(left[n].type == right[n].type for n in key),
        root_where=_and(wants.where, only_rows),
        node_where=only_rows,
        wanted=wants.where,
        masked=masked,
        unknown=unknown,
        skipped=skipped,
        unread=tuple(name for name in skipped if name in left and name not in computed),
        lacking=lacking,
        generated=tuple(
            (n, right[n].type, right[n].generated)
            for n in lacking
            if n in right and right[n].generated
        ),
        computed=computed,
        lossy=tuple(n for n in names if n not in masked and is_lossy(left[n], right[n])),
        unique_here=bool(key) and key == own_key and checked,
        only_here=any(not c.generated and c.name not in names for c in here),
        root_children=root_info.tree,
        node_children=node_info.tree,
    )


def equals(column: catalog.Column, schema: str) -> str:
    """SQL that a value of the plain type follows, to compare it as an index of the column does.

    schema -- that of the type's equality operator.
    """
    # An enum, array or row type is equal to no domain over it.
    plain = "" if column.read_as == column.type else f"::{line_type(whole(column.read_as))}"
    # Sessions have no other schema in their search path.
    operator = "=" if schema == "pg_catalog" else f"operator({line_name(schema)}.=)"
    return f"{line_name(column.name)}{plain} {operator}"


def _equals(conn: Connection, table: TableName, key: Sequence[catalog.Column]) -> tuple[str, ...]:
    relation = shapes(conn, [table]).get(table) if key else None
    known = {} if relation is None else relation.by_name
    return tuple(
        equals(column, known[column.name].eq_schema if column.name in known else "pg_catalog")
        for column in key
    )


def _require_comparable(root: Connection, node: Connection) -> None:
    """Raises StateError for two encodings in which equal texts have other bytes."""
    sides = {server_encoding(root), server_encoding(node)}
    # Those of one byte a character are hashed as UTF-8.
    others = {one for one in sides if one != "UTF8" and not is_single_byte(one)}
    if len(sides) > 1 and others:
        raise StateError(
            f"a database of encoding {server_encoding(root)} cannot be compared with one of"
            f" {server_encoding(node)}",
            detail="the servers hash texts in their own encodings",
            hint="compare databases of the same encoding, or row counts: londiste compare"
            " --count-only",
        )


def _columns(
    conn: Connection, table: TableName, where: str
) -> tuple[catalog.TableInfo, Sequence[catalog.Column]]:
    info = catalog.info(conn, table)
    if info is None:
        raise UnknownTable(
            f"table {table} does not exist {where}",
            hint=f"if it was renamed, in psql {where}: alter table … rename to {quote(table.name)};"
            f" if it was dropped: londiste remove-table {argument(table)}",
        )
    return info, catalog.columns(conn, table, info)


def _own_key(node: Connection, table: catalog.TableInfo) -> tuple[tuple[str, ...], bool]:
    """The primary key, and whether every row is held against it as it is written."""
    for constraint in catalog.constraints(node, table.name, table):
        if constraint.kind == "p":
            return constraint.columns, not constraint.deferrable
    return (), False


def _and(*conditions: str) -> str:
    return " and ".join(f"({condition})" for condition in conditions if condition)


def _bare(type_name: str) -> str:
    """A type without its modifier: numeric(10,2), timestamp(3) without time zone."""
    before, bracket, rest = type_name.partition("(")
    return before + rest.partition(")")[2] if bracket else type_name


#: Types with a length, and those that hold their values whole, in the same form.
_WHOLE = {
    "character varying": "character varying",
    "bit varying": "bit varying",
    "bit": "bit varying",
    "character": "bpchar",
}


def whole(type_name: str) -> str:
    """A type, as format_type prints it, without a length to which a cast would cut values.

    Assignment to a column with a length raises an error instead.
    """
    bare = _bare(type_name)
    element = bare.removesuffix("[]")
    if element not in _WHOLE or "(" not in type_name:
        return type_name
    return _WHOLE[element] + bare.removeprefix(element)


def as_stored(value: str, type_name: str) -> str:
    """SQL for a text as a column of this type would hold it; one that does not fit stays whole.

    A cast would cut it, and hide that it does not fit.
    """
    kind = whole(type_name)
    uncut = f"{value}::{kind}"
    if not kind.startswith("bpchar"):
        return uncut
    # Equal but for blanks at the end, which the column adds and removes as it needs.
    cut = f"{value}::{type_name}::{kind}"
    return f"case when {uncut} operator(pg_catalog.=) {cut} then {cut} else {uncut} end"
