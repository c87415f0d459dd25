"""``columns``: columns that are missing on a node or have another type than on its provider.

``--add`` creates what is missing, as the provider has it.  Existing rows get NULL, because no event
has their values; compare the table afterwards or copy it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType
from londiste.db import owner
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument, quote
from londiste.db.queries import fetch
from londiste.db.relation import shapes
from londiste.db.structure.introspect import read
from londiste.db.structure.types import Column
from londiste.dsn import describe_dsn
from londiste.errors import AccessDenied, StateError, UnknownTable, UsageError
from londiste.handlers.base import ALL
from londiste.orchestration.connections import Connections
from londiste.orchestration.lock_retry import with_table
from londiste.orchestration.plan import CommandPlan
from londiste.orchestration.steps import NodeStep, Step
from londiste.replication import lost_rows
from londiste.replication import sqlapi as tables
from londiste.replication.commands.column_checks import loses, narrower, to_store
from londiste.replication.ddl import captures
from londiste.replication.model import ReplicatedTable
from londiste.replication.patterns import table_meant


@dataclass(frozen=True)
class ColumnDifference:
    """A column that differs.

    here, provider -- its type; None: it is missing there.
    state -- missing here, other type, here alone, or generated here, where the provider's values
        are lost.
    """

    table: TableName
    column: str
    here: str | None
    provider: str | None
    state: str


@dataclass(frozen=True)
class _Pair:
    """One table on both nodes, its columns by name."""

    table: ReplicatedTable
    here: dict[str, Column]
    there: dict[str, Column]

    @property
    def generated(self) -> dict[str, Column]:
        """Columns that are generated here alone: values of the provider are lost."""
        return {
            name: column
            for name, column in self.here.items()
            if column.generated and name in self.there and not self.there[name].generated
        }


@dataclass(frozen=True)
class ColumnDifferences:
    """What differs.

    compared -- number of tables.  skipped -- tables that were not compared, and why.
    lossy -- a sentence for each column that cannot store every value of the provider.
    """

    found: tuple[ColumnDifference, ...]
    compared: int
    skipped: tuple[str, ...]
    lossy: tuple[str, ...] = ()


def differences(
    sites: Connections, dsn: str, queue: str, names: Sequence[TableName] = ()
) -> ColumnDifferences:
    """Differences between the columns of local tables and those of the provider.

    Columns that a rule of the table excludes, changes or renames are not compared.

    names -- by their names in the queue; all without.  Raises UnknownTable, StateError.
    """
    found = []
    lossy = []
    pairs, skipped = _pairs(sites, dsn, queue, names)
    for pair in pairs:
        for column in dict.fromkeys((*pair.there, *pair.here)):
            here = pair.here[column].type if column in pair.here else None
            there = pair.there[column].type if column in pair.there else None
            state = ""
            if here != there:
                state = "other type" if here and there else "here alone" if here else "missing here"
            elif column in pair.generated:
                state = "generated here"
            if state:
                found.append(ColumnDifference(pair.table.name, column, here, there, state))
            if here and there and (what := narrower(here, there) or loses(here, there)):
                lossy.append(
                    f"table {pair.table.name}: column {column} is {here} here and {there} on the"
                    f" provider: {what}"
                )
    return ColumnDifferences(tuple(found), len(pairs), tuple(skipped), tuple(lossy))


def lacking(local: Connection, provider: Connection, queue: str) -> dict[TableName, list[str]]:
    """The stored columns of the provider that local tables do not store, by table.

    As ``differences``, but reads names only.
    """
    theirs = _local(provider, queue)
    chosen = [t for t in _local(local, queue).values() if _stored_as_is(t, theirs)]
    here = shapes(local, [t.dest for t in chosen])
    there = shapes(provider, [theirs[t.name].dest for t in chosen])
    found = {}
    for t in chosen:
        mine, above = here.get(t.dest), there.get(theirs[t.name].dest)
        if mine is not None and above is not None:
            compared = _compared(t, theirs[t.name])
            missing = [c.name for c in above.columns if not c.generated and compared(c.name)]
            stored = {c.name for c in mine.columns if not c.generated}
            found[t.name] = [name for name in missing if name not in stored]
    return {name: columns for name, columns in found.items() if columns}


def plan_add(
    sites: Connections,
    dsn: str,
    queue: str,
    names: Sequence[TableName] = (),
    *,
    ignore_renames: bool = False,
) -> CommandPlan:
    """Plans adding the missing columns.  Changes nothing.

    ignore_renames -- also columns that may have another name on this node.

    Raises StateError where a missing column may be one of this node under its new name.
    """
    node = nodes.get_node_info(sites.at(dsn), queue)
    steps: list[Step] = []
    notes = []
    pairs, skipped = _pairs(sites, dsn, queue, names)
    for pair in pairs:
        missing = [one for name, one in pair.there.items() if name not in pair.here]
        if missing:
            renames = perhaps_renamed(pair.here, pair.there)
            if renames and not ignore_renames:
                raise _renamed(node.name, node.provider, pair.table, renames)
            statement = _statement(pair.table.dest, missing)
            steps.append(
                AddColumns(
                    node.name,
                    dsn,
                    queue,
                    pair.table.name,
                    pair.table.dest,
                    columns=tuple(one.name for one in missing),
                    types=tuple(one.type for one in missing),
                    empty=not all(one.generated for one in missing),
                    statement=statement,
                )
            )
            shown = argument(pair.table.name)
            notes.append(
                f"table {pair.table.name}: existing rows have NULL in the new columns: londiste"
                f" compare {shown}, and londiste resync {shown} where they differ"
            )
        if pair.generated:
            store = [(name, one.type, one.generated) for name, one in pair.generated.items()]
            notes.append(
                f"table {pair.table.name}: the provider's values are lost in columns that are"
                f" generated here: {', '.join(pair.generated)};"
                f" {to_store(pair.table.name, pair.table.dest, store)}"
            )
    return CommandPlan(tuple(steps), notes=(*notes, *skipped))


def perhaps_renamed(
    here: Mapping[str, Column], there: Mapping[str, Column]
) -> list[tuple[str, str]]:
    """Pure: columns that only this node has, each with one of its type that only the provider has.

    A column that is generated has no values of its own to be lost.
    """
    return [
        (old, new)
        for old, mine in here.items()
        for new, theirs in there.items()
        if old not in there and new not in here and mine.type == theirs.type
        if not (mine.generated or theirs.generated)
    ]


def _renamed(
    node: str, provider: str, replicated: ReplicatedTable, renames: Sequence[tuple[str, str]]
) -> StateError:
    table = replicated.dest
    old, new = renames[0]
    renamed = "; or: ".join(
        f"alter table {table.quoted} rename column {quote(old)} to {quote(new)}"
        for old, new in renames
    )
    return StateError(
        f"table {table}: column {new} of node {provider} may be column {old} of node {node},"
        " renamed",
        detail="a new column would be NULL in all rows that are here; nothing was added",
        hint=f"in psql on node {node}, if it was renamed: {renamed}; if it is new: londiste columns"
        f" {argument(replicated.name)} --add --ignore-renames",
    )


@dataclass(frozen=True)
class AddColumns(NodeStep):
    """Adds columns to one table, as its owner, and refreshes its capture.

    A domain with a check is checked for each row, by functions of the domain's owner.

    empty -- old rows get NULL: the table counts as changed without events until it is compared.
    """

    table: TableName
    dest: TableName
    columns: tuple[str, ...]
    types: tuple[str, ...]
    empty: bool
    statement: str

    def describe(self) -> str:
        return f"{self.node}: add columns {', '.join(self.columns)} to table {self.dest}"

    def explain(self) -> list[str]:
        """The statement."""
        return [f"{self.statement};"]

    def done(self, sites: Connections) -> bool:
        return set(self.columns) <= _columns(sites.at(self.dsn), [self.dest])[self.dest].keys()

    def run(self, sites: Connections) -> None:
        """Raises LockTimeout when the table stays locked, AccessDenied."""

        def work(conn: Connection) -> None:
            _require_types(conn, self.dest, self.types)
            # Of types and identifiers that the provider's catalog has quoted.
            owner.run(conn, self.dest, self.statement)
            captures.warn(captures.refresh(conn))
            if self.empty:
                lost_rows.note(conn, self.queue, self.table)

        with_table(sites, self.dsn, self.dest, self.node, work)


def _require_types(conn: Connection, table: TableName, types: Sequence[str]) -> None:
    """Raises AccessDenied if the owner of a table, who adds columns, may not use their types."""
    found = fetch(conn, "types_not_for_owner", **table._asdict(), types=list(types))
    if found:
        raise AccessDenied(
            f"table {table}: its owner {found[0]['owner']} may not use type {found[0]['type']}",
            detail="columns are added with the rights of the owner; nothing was added",
            hint=f"as an administrator of {describe_dsn(conn.info.dsn)}: "
            + "; ".join(dict.fromkeys(row["remedy"] for row in found)),
        )


def _statement(table: TableName, missing: Sequence[Column]) -> str:
    actions = []
    for one in missing:
        name = quote(one.name)
        text = f"add column {name} {one.type}"
        if one.collation:
            text += f" collate {one.collation}"
        if one.generated:
            if not one.default_builtin:
                raise UsageError(
                    f"table {table}: column {one.name} is generated by a function",
                    detail="nothing was added",
                    hint=f"alter table {table.quoted} add column {name} {one.type} generated"
                    " always as (…) stored",
                )
            kind = "virtual" if one.generated == "v" else "stored"
            text += f" generated always as ({one.default}) {kind}"
        actions.append(text)
        if one.default is not None and one.default_builtin and not one.generated:
            # Afterwards: it holds for new rows only, and writes no old one.
            actions.append(f"alter column {name} set default {one.default}")
    return f"alter table {table.quoted} {', '.join(actions)}"


def _pairs(
    sites: Connections, dsn: str, queue: str, names: Sequence[TableName]
) -> tuple[list[_Pair], list[str]]:
    """Tables to compare; and a sentence for each that cannot be compared."""
    local = sites.at(dsn)
    node = nodes.get_node_info(local, queue)
    if node.type is NodeType.ROOT:
        raise StateError(
            f"node {node.name} is the root: it has no provider",
            hint="with the settings of a subscriber: londiste columns",
        )
    provider = sites.at(sites.reach(node.provider_location, node.provider))
    mine = _local(local, queue)
    for name in names:
        if name not in mine:
            raise UnknownTable(
                f"table {name} is not replicated here",
                hint=table_meant(str(name), mine, "londiste tables"),
            )
    theirs = _local(provider, queue)
    chosen = [t for n, t in mine.items() if not names or n in names]
    skipped = []
    for t in chosen:
        above = theirs.get(t.name)
        if t.known_rules is None:
            skipped.append(f"table {t.name} was not compared: its rows are not stored as they are")
        elif above is None:
            skipped.append(f"table {t.name} was not compared: its provider does not replicate it")
        elif above.known_rules is None:
            skipped.append(f"table {t.name} was not compared: its provider stores no rows of it")
    chosen = [t for t in chosen if _stored_as_is(t, theirs)]
    here = _columns(local, [t.dest for t in chosen])
    there = _columns(provider, [theirs[t.name].dest for t in chosen])
    pairs = []
    for t in chosen:
        dest = theirs[t.name].dest
        lacking = node.name if t.dest not in here else node.provider if dest not in there else ""
        if lacking:
            skipped.append(f"table {t.name} was not compared: it does not exist on node {lacking}")
        else:
            pairs.append(_pair(t, theirs[t.name], here[t.dest], there[dest]))
    return pairs, skipped


def _pair(
    table: ReplicatedTable,
    above: ReplicatedTable,
    here: dict[str, Column],
    there: dict[str, Column],
) -> _Pair:
    compared = _compared(table, above)
    return _Pair(
        table,
        {name: column for name, column in here.items() if compared(name)},
        {name: column for name, column in there.items() if compared(name)},
    )


def _compared(table: ReplicatedTable, above: ReplicatedTable) -> Callable[[str], bool]:
    """Which columns to compare: those that the rules of neither node exclude or change."""
    rules = [side.known_rules or ALL for side in (table, above)]
    other = rules[0].changed | {name for pair in rules[0].renamed for name in pair}
    return lambda name: name not in other and all(rule.keeps(name) for rule in rules)


def _local(conn: Connection, queue: str) -> dict[TableName, ReplicatedTable]:
    return {t.name: t for t in tables.get_table_list(conn, queue) if t.local}


def _stored_as_is(table: ReplicatedTable, theirs: Mapping[TableName, ReplicatedTable]) -> bool:
    above = theirs.get(table.name)
    return table.known_rules is not None and above is not None and above.known_rules is not None


def _columns(conn: Connection, names: Sequence[TableName]) -> dict[TableName, dict[str, Column]]:
    wanted = set(names)
    return {
        table.name: {column.name: column for column in table.columns}
        for table in read(conn, names).tables
        if table.name in wanted
    }
