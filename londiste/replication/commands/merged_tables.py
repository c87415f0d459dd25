"""Tables with rows of several queues, or of a combined queue: how they are copied again.

A copy of one part alone would double its rows, or bring rows that the subscribers of the combined
queue do not get.  So the tables are removed at all of these nodes, and added again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeInfo, NodeType
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument
from londiste.db.queries import tuples
from londiste.errors import AccessDenied, StateError
from londiste.replication.forwarding import combined_queue
from londiste.replication.model import NO_MERGE, ReplicatedTable, TableOptions

#: Of deferrable constraints.
UNCHECKED = (
    "a trigger checks it, which does not fire for replicated rows: a second row with the values of"
    " another one is written beside it, or instead of it"
)


@dataclass(frozen=True)
class TableKey:
    """A key, unique constraint or index, or exclusion constraint of a table.

    deferrable -- replicated rows are not checked against it.
    immediate -- the statement that makes it not deferrable.
    shared -- several queues fill the table.
    """

    name: str
    exclusion: bool
    deferrable: bool
    columns: frozenset[str]
    immediate: str | None = None
    shared: bool = False

    def implied_by(self, other: TableKey) -> bool:
        """Whether rows that obey another key obey this one."""
        if self.exclusion or other.exclusion:
            return self.exclusion == other.exclusion and self.columns == other.columns
        return other.columns <= self.columns


def keys(
    conn: Connection, queue: str, names: Iterable[TableName]
) -> dict[TableName, tuple[TableKey, ...]]:
    """The keys of tables of the database of ``conn``, as a node of ``queue``."""
    found: dict[TableName, tuple[TableKey, ...]] = {}
    for table, name, exclusion, deferrable, columns, immediate, shared in tuples(
        conn, "table_keys", queue=queue, tables=[str(one) for one in names]
    ):
        key = TableKey(name, exclusion, deferrable, frozenset(columns), immediate, shared)
        parsed = TableName.parse(table)
        found[parsed] = (*found.get(parsed, ()), key)
    return found


def refuse_deferrable(
    conn: Connection, queue: str, like: TableName, dest: TableName, *, created: bool
) -> None:
    """Refuses to fill table ``dest`` from several queues if it has a deferrable key or constraint.

    conn, like -- the table, or with ``created`` the one of the provider that it is created like.

    Raises StateError.
    """
    for key in keys(conn, queue, [like]).get(like, ()):
        if key.deferrable:
            first = "create the table without it, or, in its provider: " if created else ""
            raise StateError(
                f"table {dest}: constraint {key.name} is deferrable, rows of several queues would"
                " not be checked against it",
                detail=f"{UNCHECKED}; nothing was changed",
                hint=f"{first}{key.immediate}",
            )


def forwarded(local: Connection, node: NodeInfo) -> str | None:
    """The combined queue whose subscribers would not get rows that a leaf copies; None: no such."""
    combined = node.combined_queue
    if combined is None or node.combined_type is not NodeType.ROOT:
        return None
    return combined if nodes.get_subscriber_info(local, combined) else None


def order(
    local: Connection, node: NodeInfo, mine: Sequence[ReplicatedTable], *, lost: bool
) -> str | None:
    """The commands that copy the tables of a leaf again, as a hint.

    mine -- the tables of the leaf.
    lost -- its worker has lost its position, and gets a new one while the tables are removed.

    None if the tables can be copied where they are.
    """
    combined = forwarded(local, node)
    # Of those that wait for their copy, nobody has rows.
    mine = [t for t in mine if t.state is not None]
    shared = [
        t.name for t in mine if combined_queue.other_queues(local, node.queue, t.name, t.dest)
    ]
    names = [t.name for t in mine] if combined is not None else shared
    changed = any(t.name in names and (t.dest != t.name or not t.is_whole) for t in mine)
    return described(names, shared, combined, lost=lost, changed=changed) if names else None


def described(
    names: Sequence[TableName],
    shared: Collection[TableName],
    combined: str | None,
    *,
    lost: bool,
    changed: bool = False,
) -> str:
    """Pure: the order of ``order`` in words.

    shared -- those of ``names`` that other queues fill, too.
    changed -- some were added with a filter or another name.
    """
    alone = [name for name in names if name not in shared]
    together = [name for name in names if name in shared]
    steps = []
    if combined is not None:
        steps.append(f"with the settings of queue {combined}: {_call('remove-table', names)}")
    if together:
        place = "with the settings of the leaf of each part: "
        steps.append(place + _call("remove-table", together))
    if alone:
        steps.append(_call("remove-table", alone))
    if lost:
        steps += ["londiste worker --rewind --force-resync", "start the worker"]
    if together:
        steps.append(f"{_call('add-table', together)} --merge-all")
    if alone:
        steps.append(f"{_call('add-table', alone)} --no-merge")
    if combined is not None:
        place = f"with the settings of the subscribers of {combined}: "
        steps.append(place + _call("add-table", names))
    if changed:
        steps.append("give add-table the options that londiste tables -v shows before")
    return "; ".join(steps)


def _call(command: str, names: Sequence[TableName]) -> str:
    return f"londiste {command} {' '.join(map(argument, names))}"


def refuse_filled(
    node: NodeInfo, table: TableName, dest: TableName, options: TableOptions, others: Sequence[str]
) -> None:
    """Refuses a copy into a table that ``others`` fill, other queues, before anything is changed.

    The copy would empty the table, unless it keeps the rows there (``skip_truncate``) and copies
    one part (``no_merge``).

    Raises StateError.
    """
    if not others or (options.merge == NO_MERGE and options.skip_truncate):
        return
    add = _call("add-table", [table])
    raise StateError(
        f"table {dest} is filled from queue {', '.join(others)} already",
        detail=f"a copy of the part of queue {node.queue} would empty it; nothing was changed",
        hint=f"to copy this part beside the other rows: {add} --no-merge --skip-truncate, after you"
        " have deleted what an earlier copy of it has left there; to copy all parts again:"
        f" {described([table], [table], None, lost=False)}",
    )


def refuse_unnamed_sources(
    local: Connection, node: NodeInfo, table: TableName, dest: TableName, options: TableOptions
) -> None:
    """Refuses a copy without ``merge`` of a table that other leaves of this database carry, too.

    Raises StateError.
    """
    if options.merge or node.type is not NodeType.LEAF:
        return
    combined = node.combined_queue
    rows = tuples(local, "table_carriers", queue=node.queue, combined=combined, dest=str(dest))
    if not rows:
        return
    add = _call("add-table", [table])
    if dest != table:
        add += f" --dest-table {argument(dest)}"
    if options.create_full or options.create:
        add += " --create-full" if options.create_full else " --create"
    raise StateError(
        f"table {dest} is also in queue {', '.join(row[0] for row in rows)}, whose leaves are in"
        " this database",
        detail="nothing was changed",
        hint=f"{add} --merge-all fills it from all of them, {add} --no-merge from queue"
        f" {node.queue} alone",
    )


def require_positions(local: Connection, node: NodeInfo, dest: TableName, *, every: bool) -> None:
    """Refuses to add a table whose copy would wait for a worker that has lost its position.

    The position gets a new start only while the leaf has no such table.

    dest -- the table in this database.
    every -- all queues that have it copy their part; otherwise this one alone.

    Raises StateError.
    """
    if not every and forwarded(local, node) is None:
        return
    try:
        rows = tuples(
            local,
            "lost_parts",
            queue=node.queue,
            combined=node.combined_queue,
            dest=str(dest),
            every=every,
        )
    except AccessDenied:
        # Only members of pgq_admin, as those who run workers, may read positions.
        return
    queues = [row[0] for row in rows]
    if not queues:
        return
    there = [f"with the settings of the leaf of queue {queue}: " for queue in queues]
    if queues == [node.queue]:
        there = [""]
    calls = "; ".join(f"{place}londiste worker --rewind" for place in there)
    word = "queue" if len(queues) == 1 else "queues"
    raise StateError(
        f"table {dest}: the worker of {word} {', '.join(queues)} has lost its position and could"
        " not copy its part",
        detail="nothing was emptied or added",
        hint=f"stop that worker, then {calls}; start it, and repeat the command",
    )
