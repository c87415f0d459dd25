"""Set-up of ``londiste replicate`` as steps: SQL, root, leaves, tables.

The databases show which steps are done.  So the same command continues after an interruption, and
adds the tables that were created since.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from londiste.cascade.commands import create_node, install_sql
from londiste.cascade.commands.create_node import NewNode
from londiste.cascade.commands.endpoint import Endpoint
from londiste.cascade.commands.install_sql import Install
from londiste.cascade.model import NodeType
from londiste.db.connection import Connection, describe_dsn
from londiste.db.names import TableName, argument
from londiste.db.queries import tuples
from londiste.errors import NothingReplicated, StateError, UnknownTable, UsageError
from londiste.handlers import condition
from londiste.handlers.base import TableRules
from londiste.handlers.table_rules import HandlerAttrs
from londiste.orchestration import steps as plan
from londiste.orchestration.connections import Connections
from londiste.orchestration.plan import CommandPlan
from londiste.orchestration.steps import Step
from londiste.replicate.created import Recorded
from londiste.replicate.databases import Replication, node_of, without_settings
from londiste.replicate.table_groups import Relation
from londiste.replication import renamed_tables
from londiste.replication import sqlapi as tables
from londiste.replication.commands import add_table
from londiste.replication.commands.add_table_checks import LEFT_OUT, Facts, check_table, look
from londiste.replication.commands.create_table import CreateTables
from londiste.replication.model import TableOptions
from londiste.replication.patterns import matches, select, table_meant

Report = Callable[[Step], None]
Warn = Callable[[str], None]

#: Tables of the source that can be replicated; the same rule as ``londiste missing`` of a root.
_TABLES = "r"


@dataclass(frozen=True)
class Selection:
    """Which tables, and which of their rows.

    patterns -- names and patterns; none: all tables.  exclude -- names and patterns.
    schemas -- only tables of these.  where -- SQL condition for the rows; '' for all.
    allow_code -- created tables may run code of the source.
    only -- the tables of one of several queues; None: this is the only one.
    skipped -- tables that this call does not add; a saved file selects them.
    """

    patterns: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    schemas: tuple[str, ...] = ()
    where: str = ""
    allow_code: bool = False
    only: frozenset[TableName] | None = None
    skipped: frozenset[TableName] = frozenset()

    def part(self, names: Sequence[TableName]) -> Selection:
        """Pure: the same for some of the selected tables."""
        patterns = tuple(
            text for text in self.patterns if any(matches(name, [text]) for name in names)
        )
        return replace(self, patterns=patterns, only=frozenset(names))

    def wants(self, name: TableName) -> bool:
        """Pure: whether a table is selected by all but the patterns."""
        if name in self.skipped or (self.only is not None and name not in self.only):
            return False
        if self.schemas and name.schema not in self.schemas:
            return False
        return not matches(name, self.exclude)

    def choose(self, candidates: Sequence[TableName], where: str) -> list[TableName]:
        """Pure: the selected ones.  Raises UnknownTable for a pattern without a table.

        where -- the database, for the message.
        """
        found: Sequence[TableName] = candidates
        if self.patterns:
            found = select(
                self.patterns, candidates, (), lambda text: _unknown(text, where, candidates)
            ).chosen
        return [name for name in found if self.wants(name)]


def _unknown(text: str, where: str, known: Sequence[TableName]) -> UnknownTable:
    return UnknownTable(
        f"table {text} does not exist in {where}, or cannot be replicated",
        detail="unlogged, temporary and foreign tables, views and tables of the system are not"
        " replicated; nothing was changed",
        hint=table_meant(text, known, "name tables as schema.table, a pattern as 'schema.*'"),
    )


def candidates(conn: Connection, queues: Sequence[str]) -> list[TableName]:
    """The tables of the source that are or could be replicated; it may be no node yet."""
    existing = [queue for queue in queues if node_of(conn, queue) is not None]
    if not existing:
        rows = conn.execute(_ALL.encode()).fetchall()
        return [TableName(str(row[0]), str(row[1])) for row in rows]
    known = replicated(conn, existing)
    missing = {
        TableName.parse(one.name)
        for queue in existing
        for one in tables.local_show_missing(conn, queue)
        if one.kind == _TABLES
    }
    if len(existing) > 1:
        # A queue that has partitions one by one lists the others, and not the partitioned table.
        missing -= {
            one.other for one in related(conn) if one.kind == "partition" and one.one in known
        }
    return sorted(known | missing)


def related(conn: Connection) -> list[Relation]:
    """The pairs of tables of a database whose changes have an order."""
    return [
        Relation(TableName(s, n), TableName(t, m), kind)
        for s, n, t, m, kind in tuples(conn, "related_tables")
    ]


def replicated(conn: Connection, queues: Sequence[str]) -> set[TableName]:
    """The tables that a database has in these queues; it may be no node yet."""
    return {
        one.name
        for queue in queues
        if node_of(conn, queue) is not None
        for one in tables.get_table_list(conn, queue)
        if one.local
    }


#: As ``londiste.local_show_missing`` lists them on a root without tables.
_ALL = """
select n.nspname, c.relname
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence = 'p'
    and n.nspname not in ('information_schema', 'pgq', 'pgq_ext', 'pgq_coop', 'pgq_node',
                          'londiste', 'londiste_capture', 'londiste_apply')
    and n.nspname !~ '^pg_' and pg_catalog.strpos(n.nspname, '.') = 0
    and not exists (
        select from pg_catalog.pg_depend d
        where d.classid = c.tableoid and d.objid = c.oid and d.deptype = 'e')
order by 1, 2
"""


def chosen(
    conn: Connection, dsn: str, queues: Sequence[str], selection: Selection
) -> list[TableName]:
    """The tables of the source that the selection names.

    Raises NothingReplicated if there are none, UnknownTable.
    """
    where = describe_dsn(dsn)
    found = selection.choose(candidates(conn, queues), where)
    if not found:
        raise NothingReplicated(
            f"{where} has no table to replicate",
            detail="with the given --schema and --exclude"
            if selection.schemas or selection.exclude
            else "",
            hint="create a table in the source first"
            if not (selection.schemas or selection.exclude)
            else "check the names of --schema and --exclude",
        )
    return found


def left_out(
    conn: Connection, queues: Sequence[str], selection: Selection
) -> list[tuple[TableName, str]]:
    """The selected tables of the source that cannot be replicated, and why."""
    known = replicated(conn, queues)
    rows = [
        (TableName(schema, name), LEFT_OUT[why])
        for kind, schema, name, why in tuples(conn, "left_out")
        if kind == "r"
    ]
    wanted = _selected((name for name, _ in rows), selection) - known
    return [(name, why) for name, why in rows if name in wanted]


def not_replicated(
    sites: Connections, replications: Sequence[Replication], selection: Selection
) -> list[str]:
    """The selected tables of the source that it, or the named target, does not replicate."""
    queues = [one.queue for one in replications]
    conn = sites.at(replications[0].source.dsn)
    known = replicated(conn, queues)
    others = _selected(candidates(conn, queues), selection) - known
    others |= {name for name, _ in left_out(conn, queues, selection)}
    below = lacking(sites, replications, selection)
    return [*map(str, sorted(others)), *(f"{name} on {target}" for name, target in below)]


def lacking(
    sites: Connections, replications: Sequence[Replication], selection: Selection
) -> list[tuple[TableName, str]]:
    """The selected tables that the source replicates and a target does not, with that target."""
    queues, first = [one.queue for one in replications], replications[0]
    wanted = _selected(replicated(sites.at(first.source.dsn), queues), selection)
    return [
        (name, target.name)
        for target in first.targets
        for name in sorted(wanted - replicated(sites.at(target.dsn), queues))
    ]


def _selected(names: Iterable[TableName], selection: Selection) -> set[TableName]:
    """Pure: those of the tables that the selection names; a pattern may match none."""
    return {
        name
        for name in names
        if (not selection.patterns or matches(name, selection.patterns)) and selection.wants(name)
    }


def require_condition(conn: Connection, names: Sequence[TableName], where: str) -> None:
    """Refuses a condition that one of the tables of the source cannot have.  Raises BadOption."""
    for name in names if where else ():
        condition.check(conn, name, TableRules(where=where))


def require_free(
    sites: Connections,
    replication: Replication,
    names: Sequence[TableName],
    others: Mapping[str, str],
) -> dict[TableName, str]:
    """The tables that another queue fills in a target, or that were renamed; each with the reason.

    others -- other queues that connect these databases, each with the command for it.

    Raises StateError at the first set-up of a target.
    """
    found = renamed_tables.left_out(sites.at(replication.source.dsn), replication.queue, names)
    for target in replication.targets:
        conn = sites.at(target.dsn)
        if not install_sql.has_nodes(conn):
            continue
        there = replicated(conn, [replication.queue])
        for name in names:
            filling = [
                str(queue)
                for (queue,) in tuples(
                    conn, "other_queues_of_table", dest=str(name), queue=replication.queue
                )
            ]
            if not filling:
                continue
            what = f"is filled from queue {filling[0]} already"
            if not there.isdisjoint(names):
                found[name] = f"it {what} in {describe_dsn(target.dsn)}"
                continue
            raise StateError(
                f"table {name} of {describe_dsn(target.dsn)} {what}",
                detail="nothing was changed",
                hint=others.get(filling[0]) or f"exclude it: --exclude {argument(name)}",
            )
    return found


def first(replication: Replication) -> list[Step]:
    """The steps that do not depend on the results of others."""
    return [Install(one, replication.mark) for one in replication.all]


@dataclass(frozen=True)
class Share:
    """A queue, and the selection of its tables.

    names -- the selected tables of the source that it has, or gets.
    """

    replication: Replication
    selection: Selection
    names: tuple[TableName, ...]

    def without(self, skipped: Collection[TableName]) -> Share:
        """Pure: the same without tables that cannot be added."""
        return replace(
            self,
            selection=replace(self.selection, skipped=frozenset(skipped)),
            names=tuple(name for name in self.names if name not in skipped),
        )


def set_up(shares: Sequence[Share], report: Report, warn: Warn) -> int:
    """Runs the remaining steps, the same of all queues together; returns their number."""
    with contextlib.ExitStack() as stack:
        # Its sessions hold the lock of one cascade.
        sites = [stack.enter_context(one.replication.sites()) for one in shares]
        count = plan.execute(first(shares[0].replication), sites[0], report)
        of_queues = [stages(one.replication, one.selection, warn) for one in shares]
        for same in zip(*of_queues, strict=True):
            for stage, own, share in zip(same, sites, shares, strict=True):
                with without_settings(share.replication.source, share.replication.queue):
                    count += plan.execute(stage(own), own, report)
        if count and (beside := not_created(sites[0], shares[0].replication, shares[0].selection)):
            warn(beside)
    return count


def not_created(sites: Connections, replication: Replication, selection: Selection) -> str:
    """What targets lack besides tables, for who replicates a database or a schema; '' for nothing.

    Tables that are chosen by name say that nothing else is wanted.
    """
    if selection.patterns:
        return ""
    wanted = _beside_tables(sites.at(replication.source.dsn))
    lacking = {
        one for side in replication.targets for one in wanted - _beside_tables(sites.at(side.dsn))
    }
    count = Counter(
        kind for kind, schema, _ in lacking if not selection.schemas or schema in selection.schemas
    )
    if not count:
        return ""
    listed = ", ".join(f"{n} {kind}{'s' * (n > 1)}" for kind, n in sorted(count.items()))
    return (
        f"not created: {listed}; replicate creates tables only: use pg_dump --schema-only, or"
        " londiste migrate, which creates them too"
    )


def _beside_tables(conn: Connection) -> set[tuple[str, str, str]]:
    """Kind, schema and name of views and functions."""
    return {(kind, schema, name) for kind, schema, name in tuples(conn, "objects_beside_tables")}


def stages(
    replication: Replication, selection: Selection, warn: Warn
) -> list[Callable[[Connections], list[Step]]]:
    """The further steps, planned when those before them are done."""
    return [
        lambda sites: _root(sites, replication),
        *(_leaf_of(replication, target) for target in replication.targets),
        lambda sites: _tables_of_root(sites, replication, selection, warn),
        *(_tables_of(replication, target, selection, warn) for target in replication.targets),
    ]


def _new_node(replication: Replication, side: Endpoint, kind: NodeType) -> NewNode:
    return NewNode(replication.queue, kind, side.name, side.dsn, side.location, side.worker)


def _root(sites: Connections, replication: Replication) -> list[Step]:
    source = replication.source
    if node_of(sites.at(source.dsn), replication.queue) is not None:
        return []
    return create_node.create_root(sites, _new_node(replication, source, NodeType.ROOT))


def _leaf_of(replication: Replication, target: Endpoint) -> Callable[[Connections], list[Step]]:
    def steps(sites: Connections) -> list[Step]:
        if node_of(sites.at(target.dsn), replication.queue) is not None:
            return []
        new = _new_node(replication, target, NodeType.LEAF)
        return create_node.create_leaf(sites, new, replication.source.dsn)

    return steps


def _tables_of_root(
    sites: Connections, replication: Replication, selection: Selection, warn: Warn
) -> list[Step]:
    source, queue = replication.source, replication.queue
    conn = sites.at(source.dsn)
    options = TableOptions(whole_row=True)
    there = replicated(conn, [queue])
    named = selection.choose(candidates(conn, [queue]), describe_dsn(source.dsn))
    wanted = [name for name in named if name not in there]
    if not selection.patterns:
        facts = look(conn, wanted)
        wanted = [n for n in wanted if _possible(conn, n, facts.get(n), options, warn)]
    if not wanted or node_of(conn, queue) is None:
        return []
    found = add_table.plan(sites, source.dsn, queue, wanted, options)
    _say(found, warn)
    return list(found.steps)


def _possible(
    conn: Connection, name: TableName, facts: Facts | None, options: TableOptions, warn: Warn
) -> bool:
    """Whether one of all tables can be added; warns otherwise."""
    try:
        check_table(conn, name, facts, options)
    except (UsageError, UnknownTable) as error:
        warn(f"{error.message}, skipped")
        return False
    return True


def _tables_of(
    replication: Replication, target: Endpoint, selection: Selection, warn: Warn
) -> Callable[[Connections], list[Step]]:
    def steps(sites: Connections) -> list[Step]:
        queue = replication.queue
        known = tables.get_table_list(sites.at(target.dsn), queue)
        there = {t.name for t in known if t.local}
        listed = tables.get_table_list(sites.at(replication.source.dsn), queue)
        # Other tables of the queue are those of other targets, or of earlier runs.
        wanted = [
            name
            for name in selection.choose(
                [t.name for t in listed if t.local], describe_dsn(replication.source.dsn)
            )
            if name not in there
        ]
        if selection.where and there:
            warn(
                f"{target.name}: --where has no effect on tables that are already added: londiste"
                " change-handler"
            )
        if not wanted:
            return []
        options = TableOptions(
            whole_row=True,
            create_full=True,
            create_needs=True,
            allow_code=selection.allow_code,
            choice=HandlerAttrs(where=selection.where),
        )
        found = add_table.plan(sites, target.dsn, queue, wanted, options)
        _say(found, warn)
        return [
            Recorded(step, target, queue) if isinstance(step, CreateTables) else step
            for step in found.steps
        ]

    return steps


def _say(found: CommandPlan, warn: Warn) -> None:
    for line in (*found.skipped, *found.notes):
        warn(line)
