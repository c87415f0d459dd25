"""``migrate start`` as steps: SQL, schema, two nodes, all tables, all sequences.

The two databases show which steps are done.  So the migration needs no record of its own, and the
same command continues after an interruption.  Steps that depend on the results of earlier ones are
planned when their turn comes.
"""

from __future__ import annotations

from collections.abc import Callable

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands import create_node
from londiste.cascade.commands.create_node import NewNode
from londiste.cascade.commands.install_sql import Install, has_nodes
from londiste.cascade.model import NodeInfo, NodeType
from londiste.db.advisory_lock import same_database
from londiste.db.connection import Connection, describe_dsn, session
from londiste.db.names import TableName
from londiste.db.queries import translated
from londiste.errors import BadOption, StateError
from londiste.migrate.databases import NEW, OLD, Pair, Side
from londiste.migrate.schema_copy import MakeStructure
from londiste.monitor.doctor import collect
from londiste.orchestration import steps as plan
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Later, Step
from londiste.replication import sqlapi as tables
from londiste.replication.commands import add_table, sequences
from londiste.replication.commands.registry_sync import CopyRegistry
from londiste.replication.model import TableOptions

#: Says of a schema that it was made for a move, and goes with it.
MADE = "made by londiste migrate: {queue}"

Report = Callable[[Step], None]


def mark(pair: Pair) -> str:
    """The mark of schemas that the migration installs."""
    return MADE.format(queue=pair.queue)


def node(sites: Connections, side: Side, queue: str) -> NodeInfo | None:
    """The node that a side is; None where it is none, or where the SQL is not installed."""
    conn = sites.at(side.dsn)
    if not has_nodes(conn):
        return None
    found = nodes.find_node_info(conn, queue)
    if found is not None and found.name != side.name:
        raise StateError(
            f"{describe_dsn(side.dsn)} is node {found.name} of queue {queue},"
            " not part of this migration",
            hint="check whether --from and --to are swapped; for another queue: --set queue_name=…",
        )
    return found


def require_two(sites: Connections, pair: Pair) -> None:
    """Raises BadOption when both connection strings lead to one database."""
    with translated(describe_dsn(pair.new.dsn)):
        # A session of its own: for equal strings there is one only.
        with session(
            pair.new.dsn,
            name="londiste migrate",
            autocommit=True,
            answer_seconds=pair.answer_seconds,
        ) as other:
            same = same_database(sites.at(pair.old.dsn), other)
    if same:
        raise BadOption(
            f"--from and --to lead to the same database, {describe_dsn(pair.new.dsn)}",
            hint="give the connection strings of two databases",
        )


def first(pair: Pair, structure: MakeStructure) -> list[Step]:
    """The steps that do not depend on the results of others."""
    return [
        Install(pair.old, mark(pair)),
        Install(pair.new, mark(pair)),
        structure,
    ]


def set_up(sites: Connections, pair: Pair, structure: MakeStructure, report: Report) -> int:
    """Runs the remaining steps; returns their number.

    Raises StateError once the new database is the root: then the start is over.
    """
    count = plan.execute(first(pair, structure), sites, report)
    for stage in stages(pair):
        count += plan.execute(stage(sites), sites, report)
    return count


def stages(pair: Pair) -> list[Callable[[Connections], list[Step]]]:
    """The further steps, planned when those before them are done."""
    return [
        lambda sites: _root(sites, pair),
        lambda sites: _branch(sites, pair),
        *_additions(pair, pair.old),
    ]


def _additions(pair: Pair, root: Side) -> list[Callable[[Connections], list[Step]]]:
    """Adds all tables and sequences of the root's database on the other side."""
    below = pair.other(root)
    return [
        lambda sites: _tables_of_root(sites, pair, root),
        lambda sites: _sequences(sites, pair, root),
        lambda sites: _tables_below(sites, pair, below),
        lambda sites: _sequences(sites, pair, below),
    ]


def add_later(sites: Connections, pair: Pair, root: Side, report: Report) -> int:
    """Adds later tables and sequences of the root's database; returns the number of steps.

    The other side creates and copies such a table.
    """
    return sum(plan.execute(stage(sites), sites, report) for stage in _additions(pair, root))


def _new_node(pair: Pair, side: Side, kind: NodeType) -> NewNode:
    return NewNode(pair.queue, kind, side.name, side.dsn, side.location, side.worker)


def _root(sites: Connections, pair: Pair) -> list[Step]:
    if node(sites, pair.old, pair.queue) is not None:
        return []
    return create_node.create_root(sites, _new_node(pair, pair.old, NodeType.ROOT))


def _branch(sites: Connections, pair: Pair) -> list[Step]:
    if node(sites, pair.new, pair.queue) is not None:
        return []
    new = _new_node(pair, pair.new, NodeType.BRANCH)
    steps = create_node.create_branch(sites, new, pair.old.dsn)
    steps.append(CopyRegistry(NEW, OLD, pair.old.dsn, pair.new.dsn, pair.queue))
    return steps


def not_replicated(conn: Connection, queue: str) -> list[TableName]:
    """The tables of the root's database that could be replicated and are not.

    Not those of extensions, and not those without columns.
    """
    mine = {t.name for t in collect.tables(conn) if t.replicated}
    missing = tables.local_show_missing(conn, queue)
    names = [TableName.parse(m.name) for m in missing if m.kind == "r"]
    return [name for name in names if name in mine]


def sequences_left(conn: Connection, queue: str) -> list[TableName]:
    """The sequences of the root's database that could be replicated and are not."""
    mine = {s.name for s in collect.sequences(conn)}
    missing = tables.local_show_missing(conn, queue)
    names = [TableName.parse(m.name) for m in missing if m.kind == "S"]
    return [name for name in names if name in mine]


def _tables_of_root(sites: Connections, pair: Pair, side: Side) -> list[Step]:
    names = not_replicated(sites.at(side.dsn), pair.queue)
    if not names:
        return []
    # A table without key is found by its whole row.
    options = TableOptions(whole_row=True)
    return list(add_table.plan(sites, side.dsn, pair.queue, names, options).steps)


def _tables_below(sites: Connections, pair: Pair, side: Side) -> list[Step]:
    # One that came later is made like that of the root.
    options = TableOptions(whole_row=True, create_full=True, allow_code=True)
    return list(add_table.plan(sites, side.dsn, pair.queue, [], options, every=True).steps)


def _sequences(sites: Connections, pair: Pair, side: Side) -> list[Step]:
    found = sequences.plan_add(sites, side.dsn, pair.queue, (), every=True)
    return list(found.steps)


def later(sites: Connections, pair: Pair) -> list[Later]:
    """The remaining steps after ``first`` in words; changes nothing."""

    def pending(side: Side, tables_of: Callable[[Connections, Pair, Side], list[Step]]) -> bool:
        steps = [*tables_of(sites, pair, side), *_sequences(sites, pair, side)]
        return bool(plan.remaining(steps, sites))

    old = node(sites, pair.old, pair.queue) is not None
    new = node(sites, pair.new, pair.queue) is not None
    above = not old or pending(pair.old, _tables_of_root)
    below = not new or above or pending(pair.new, _tables_below)
    texts = {
        "old: create root": not old,
        "new: create branch, provider old": not new,
        "old: add all tables and sequences": above,
        "new: add all tables, to be copied, and all sequences": below,
    }
    return [Later(text) for text, remains in texts.items() if remains]
