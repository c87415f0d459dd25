"""Groups of tables that belong together, and their distribution over the queues of a replication.

Changes of the tables of one queue are applied in their order; two queues have no common order.  So
tables that are related, by foreign keys for example, are in one queue.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from londiste.db.names import TableName


class Relation(NamedTuple):
    """Two tables whose changes have an order, and why: ``foreign key``, for example."""

    one: TableName
    other: TableName
    kind: str


class Work(NamedTuple):
    """How much a table contains, and how often it changes: bytes, and rows that were changed."""

    size: int = 0
    changes: int = 0


@dataclass(frozen=True)
class Distribution:
    """Which queue has which table.

    tables -- the chosen tables of each queue.
    refused -- new tables that are related to tables of several queues, and those queues.
    apart -- relations between tables of different queues.
    """

    tables: Mapping[str, tuple[TableName, ...]]
    refused: Mapping[TableName, tuple[str, ...]] = field(default_factory=dict)
    apart: tuple[Relation, ...] = ()


def distribute(
    chosen: Collection[TableName],
    placed: Mapping[TableName, str],
    relations: Iterable[Relation],
    work: Mapping[TableName, Work],
    queues: Sequence[str],
) -> Distribution:
    """Pure: the queue of each chosen table.

    A table stays in its queue.  New tables get into the queue of their relatives; groups without
    one, the heaviest first, into the queue with the least work.

    placed -- the queues of the tables that are in one already.  queues -- in their order.
    """
    known = {*chosen, *placed}
    links = [one for one in relations if one.one in known and one.other in known]
    settled = {one for one in links if one.one in placed and one.other in placed}
    weights = _weights(work, known)
    loads = dict.fromkeys(queues, _NOTHING)
    place = dict(placed)
    refused: dict[TableName, tuple[str, ...]] = {}
    for name, queue in placed.items():
        loads[queue] = _sum(loads[queue], weights[name])
    free: list[tuple[tuple[int, int], list[TableName]]] = []
    for group in groups(known, [one for one in links if one not in settled]):
        new = [name for name in group if name not in placed]
        homes = {placed[name] for name in group if name in placed}
        weight = _NOTHING
        for name in new:
            weight = _sum(weight, weights[name])
        if not homes:
            free.append((weight, new))
        elif len(homes) == 1:
            place.update(dict.fromkeys(new, *homes))
            loads[min(homes)] = _sum(loads[min(homes)], weight)
        else:
            refused.update(dict.fromkeys(new, tuple(q for q in queues if q in homes)))
    for weight, new in sorted(free, key=lambda one: (-one[0][0], -one[0][1], one[1])):
        queue = min(queues, key=lambda queue: (loads[queue], queues.index(queue)))
        place.update(dict.fromkeys(new, queue))
        loads[queue] = _sum(loads[queue], weight)
    tables: dict[str, list[TableName]] = {queue: [] for queue in queues}
    for name in sorted(set(chosen) - refused.keys()):
        tables[place[name]].append(name)
    return Distribution(
        {queue: tuple(names) for queue, names in tables.items()},
        refused,
        tuple(sorted(one for one in settled if placed[one.one] != placed[one.other])),
    )


def groups(
    names: Collection[TableName], relations: Iterable[Relation]
) -> Iterator[list[TableName]]:
    """Pure: the groups of related tables, each sorted, in the order of their first names."""
    near: dict[TableName, set[TableName]] = {name: set() for name in names}
    for one, other, _ in relations:
        near[one].add(other)
        near[other].add(one)
    seen: set[TableName] = set()
    for name in sorted(names):
        if name in seen:
            continue
        group, waiting = {name}, [name]
        while waiting:
            more = near[waiting.pop()] - group
            group |= more
            waiting += more
        seen |= group
        yield sorted(group)


#: Work and number of tables: these decide where the work is equal.
_NOTHING = (0, 0)


def _sum(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] + other[0], one[1] + other[1]


def _weights(
    work: Mapping[TableName, Work], names: Collection[TableName]
) -> dict[TableName, tuple[int, int]]:
    """The shares of all bytes and of all changes, added and as integers; each is one table."""
    known = {name: work.get(name, Work()) for name in names}
    size = max(1, sum(one.size for one in known.values()))
    changes = max(1, sum(one.changes for one in known.values()))
    return {name: (one.size * changes + one.changes * size, 1) for name, one in known.items()}
