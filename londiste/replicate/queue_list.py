"""The queues of one replication: which exist, which are added, and the tables of each.

The first queue names the replication.  Further ones have its name with a number, and workers whose
names contain that number: by these a queue is known, not by its name alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands import install_sql
from londiste.cascade.model import NodeInfo, NodeType
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument
from londiste.db.queries import tuples
from londiste.errors import StateError
from londiste.orchestration.connections import Connections
from londiste.pgq import queues as queues_of
from londiste.replicate.databases import (
    ReplicateSettings,
    Replication,
    free_name,
    identify,
    node_of,
    reads_from,
    worker_name,
)
from londiste.replicate.remove import readers
from londiste.replicate.setup import Selection, Share, related, replicated
from londiste.replicate.table_groups import Distribution, Relation, Work, distribute
from londiste.wording import shortened

#: Pairs of tables that one warning names.
_NAMED = 3


def identify_all(
    settings: ReplicateSettings, source: str, targets: Sequence[str], wanted: int = 1
) -> list[Replication]:
    """All queues of the replication of these databases, the first one first.

    wanted -- their number; names of queues to create are added up to it.

    Raises as ``identify``.
    """
    first = identify(settings, source, targets)
    with first.sites() as sites:
        found = _further(sites, first)
        taken = _taken(sites, first)
    while len(found) + 1 < wanted:
        name = free_name(first.queue, {first.queue, *taken, *found})
        number = number_of(name, first.queue)
        assert number is not None
        found[name] = number
    return [
        first,
        *(
            identify(
                settings.model_copy(update={"queue_name": name}),
                source,
                targets,
                first=first.queue,
                number=number,
            )
            for name, number in sorted(found.items(), key=lambda one: one[1])
        ),
    ]


def number_of(queue: str, first: str) -> int | None:
    """Pure: the number of a queue by its name; None if that is no name of a further queue."""
    match = re.fullmatch(rf"{re.escape(first)}_([1-9][0-9]*)", queue)
    return int(match[1]) if match and int(match[1]) > 1 else None


def is_further(queue: str, node: NodeInfo, first: str) -> bool:
    """Pure: whether a node is one of a further queue, by the names of queue and worker."""
    number = number_of(queue, first)
    return number is not None and node.worker == worker_name(node.name, number)


def _further(sites: Connections, first: Replication) -> dict[str, int]:
    """The further queues that exist in the source, or in a target that reads from it."""
    found: dict[str, int] = {}
    for side in first.all:
        conn = sites.at(side.dsn)
        for queue in _node_queues(conn):
            number, node = number_of(queue, first.queue), node_of(conn, queue)
            if number is None or node is None or not is_further(queue, node, first.queue):
                continue
            at_source = side is first.source
            if at_source == (node.type is not NodeType.LEAF) and (
                at_source or reads_from(node, first.source)
            ):
                found[queue] = number
    return found


def of_target(conn: Connection, queue: str) -> list[tuple[str, NodeInfo]]:
    """The queues of the replication with this first queue, as a target has them; and its nodes."""
    return [
        (name, node)
        for name in _node_queues(conn)
        if (node := node_of(conn, name)) is not None
        and node.type is not NodeType.ROOT
        and (name == queue or is_further(name, node, queue))
    ]


def _taken(sites: Connections, first: Replication) -> set[str]:
    """Names of queues that exist in the databases, whatever for."""
    source = sites.at(first.source.dsn)
    found = {queue for side in first.all for queue in _node_queues(sites.at(side.dsn))}
    if install_sql.installed(source):
        found |= {one.queue_name for one in queues_of.get_queue_info(source)}
    return found


def _node_queues(conn: Connection) -> list[str]:
    if not install_sql.has_nodes(conn):
        return []
    return [str(queue) for (queue,) in tuples(conn, "queues_of_nodes")]


def concerned(sites: Connections, replications: Sequence[Replication]) -> list[Replication]:
    """The first queue, and those that connect these databases; others connect other targets.

    Also what an interrupted command has left: a target that is registered at the source only, or
    a root without subscribers.
    """
    first, *further = replications
    return [first, *(one for one in further if _connects(sites, one))]


def _connects(sites: Connections, replication: Replication) -> bool:
    if any(node_of(sites.at(one.dsn), replication.queue) for one in replication.targets):
        return True
    source = sites.at(replication.source.dsn)
    if node_of(source, replication.queue) is None:
        return False
    members = {one.name for one in nodes.get_queue_locations(source, replication.queue)}
    targets = {one.name for one in replication.targets}
    return bool(members & targets) or not readers(sites, replication)


def shares(
    sites: Connections,
    replications: Sequence[Replication],
    selection: Selection,
    names: Collection[TableName],
    warn: Callable[[str], None],
) -> list[Share]:
    """The queues that have tables, or connect these databases already, each with its tables.

    names -- the selected tables of the source.

    Raises StateError if no table can be in one of the queues.
    """
    first = replications[0]
    if len(replications) == 1:
        return [Share(first, selection, tuple(names))]
    found = _distribution(sites, replications, names)
    for text in warnings(found):
        warn(text)
    if names and not any(found.tables.values()):
        name = min(found.refused)
        raise StateError(
            f"table {name} is related to tables of queues {', '.join(found.refused[name])}",
            detail="the order of their changes would be lost; nothing was changed",
            hint="remove one of these queues, then repeat the command; or exclude the table:"
            f" --exclude {argument(name)}",
        )
    known = [one.queue for one in concerned(sites, replications)]
    used = [one for one in replications if one.queue in known or found.tables[one.queue]]
    if used == [first] and not found.refused:
        return [Share(first, selection, tuple(names))]
    return [
        Share(one, selection.part(found.tables[one.queue]), found.tables[one.queue]) for one in used
    ]


def warnings(found: Distribution) -> list[str]:
    """Pure: what an operator has to know of a distribution."""
    texts = [
        f"table {name} is not added: it is related to tables of queues {', '.join(queues)}"
        for name, queues in found.refused.items()
    ]
    if found.apart:
        apart = [f"{one} and {other} ({kind})" for one, other, kind in found.apart]
        texts.append(
            "related tables are in different queues, without a common order:"
            f" {shortened(apart, _NAMED)}"
        )
    return texts


def described(found: Sequence[Share], settings: ReplicateSettings) -> list[str]:
    """Pure: one line for each of several queues, and why their number is not the one asked for."""
    texts = []
    if len(found) > 1:
        texts += [
            f"queue {one.replication.queue}: {_tables(one.names)}" for one in found if one.names
        ]
    if len(found) < settings.queues:
        texts.append(
            f"{len(found)} of {settings.queues} queues used: related tables are in one queue, and"
            " a table stays in its queue"
        )
    elif "queues" in settings.model_fields_set and len(found) > settings.queues:
        texts.append(f"{len(found)} queues exist and stay: a table stays in its queue")
    return texts


def _tables(names: Sequence[TableName]) -> str:
    some = shortened(names, _NAMED)
    return f"table {some}" if len(names) == 1 else f"{len(names)} tables: {some}"


def _distribution(
    sites: Connections, replications: Sequence[Replication], names: Collection[TableName]
) -> Distribution:
    first, queues = replications[0], [one.queue for one in replications]
    placed: dict[TableName, str] = {}
    relations: set[Relation] = set()
    for side in first.all:
        conn = sites.at(side.dsn)
        # A target may have keys that the source lacks, and tables that left the source since.
        relations.update(related(conn))
        for queue in queues:
            for name in replicated(conn, [queue]):
                placed.setdefault(name, queue)
    work = _work(sites.at(first.source.dsn), {*names, *placed})
    return distribute(names, placed, sorted(relations), work, queues)


def _work(conn: Connection, names: Collection[TableName]) -> Mapping[TableName, Work]:
    """The work of tables of the source."""
    found = tuples(
        conn,
        "table_work",
        schemas=[one.schema for one in names],
        names=[one.name for one in names],
    )
    return {TableName(s, n): Work(size, changes) for s, n, size, changes in found}
