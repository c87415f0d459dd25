"""Grouping of small tables for a common copy, and the shares of its tasks.

Pure: what is known of the tables in, lists out.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from londiste.copy.columns import has_char, pair
from londiste.copy.mode import RESUMABLE, SNAPSHOT, ModeFacts, choose
from londiste.db.bulk_catalog import TableFacts
from londiste.db.names import TableName
from londiste.engine.spec import GroupSpec, Member
from londiste.errors import LondisteError
from londiste.handlers.base import ALL
from londiste.replication.model import ReplicatedTable, copy_mode

log = logging.getLogger(__name__)

#: Tables of a group at most: what is shared is small then, and a kill costs seconds.
MOST = 250
#: A table larger than this part of a chunk has a copy of its own: taking its indexes off pays.
SMALL = 1 / 8


@dataclass(frozen=True)
class Together:
    """The decision.

    together -- the tables of the group, and why each is copied in one snapshot.
    alone -- those that are to be copied by themselves.
    """

    together: Mapping[TableName, str]
    alone: frozenset[TableName]


def may_join(table: ReplicatedTable) -> bool:
    """Whether a table in in-copy can be copied with others, as far as its registration tells."""
    return (
        copy_mode(table) != RESUMABLE
        and not table.dropped_ddl
        and table.copy_role is None
        and "copy_node" not in table.attrs
        # A copy that begins again has to tell its rows from those that stay.
        and "skip_truncate" not in table.attrs
        and _wants_all(table)
    )


def _wants_all(table: ReplicatedTable) -> bool:
    """No handler, row filter or list of columns has a part in the copy."""
    try:
        return table.wants == ALL
    except LondisteError:
        return False


def plan(
    candidates: Sequence[ReplicatedTable],
    sizes: Mapping[TableName, int | None],
    *,
    chunk_bytes: int,
    resumable_from: int,
) -> Together:
    """Chooses the tables of a group: small ones, up to the size of a chunk.

    sizes -- bytes on the source by the name in the queue; no entry or None: not (wholly) there.
    """
    together: dict[TableName, str] = {}
    alone = set()
    room = chunk_bytes
    for table in candidates:
        size = sizes.get(table.name)
        if not may_join(table) or size is None or size > chunk_bytes * SMALL:
            alone.add(table.name)
            continue
        way = choose(ModeFacts(str(table.name), copy_mode(table), size, resumable_from))
        if way.mode != SNAPSHOT or size >= resumable_from:
            alone.add(table.name)
        elif size <= room and len(together) < MOST:
            together[table.name] = way.reason
            room -= size
    if len(together) == 1:
        alone |= together.keys()
        together = {}
    return Together(together, frozenset(alone))


@dataclass(frozen=True)
class Planned:
    """A table of a group, known on both sides."""

    table: ReplicatedTable
    source: TableFacts
    target: TableFacts
    pairs: tuple[tuple[str, str], ...]
    binary: bool

    @classmethod
    def of(
        cls, table: ReplicatedTable, source: TableFacts, target: TableFacts, *, same_version: bool
    ) -> Planned | None:
        """None for a table that is copied alone: odd ones, and those that cannot be copied."""
        if source.kind != "r" or target.kind != "r":
            return None
        if not same_version and has_char(target.columns):
            # Its own copy finds out whether it can be copied.
            return None
        try:
            found = pair(table.name, source.columns, target.columns, same_version=same_version)
        except LondisteError:
            return None
        # What events tell of a column that is missing here, its own copy finds out.
        if not found.pairs or found.missing or source.has_domain([pair[0] for pair in found.pairs]):
            return None
        for warning in found.warnings:
            log.warning("%s", warning)
        return cls(table, source, target, found.pairs, found.binary)

    def member(self, attempt: int) -> Member:
        """The member's part of a task."""
        return Member(
            table_name=str(self.table.name),
            source_table=self.source.name,
            target_table=self.target.name,
            columns=self.pairs,
            attempt=attempt,
            binary=self.binary,
            source_shape=self.source.shape([pair[0] for pair in self.pairs]),
            target_mark=self.target.mark,
            bytes=self.source.total_bytes,
        )


def shares(members: Sequence[Member], tasks: int, group: GroupSpec) -> list[GroupSpec]:
    """Deals the members out to ``tasks`` tasks, largest first, each to the least loaded one.

    group -- what the tasks have in common, without members.
    """
    piles: list[list[Member]] = [[] for _ in range(max(1, tasks))]
    heap = [(0, number) for number in range(len(piles))]
    for member in sorted(members, key=lambda member: -member.bytes):
        load, number = heapq.heappop(heap)
        piles[number].append(member)
        # A table costs something however small it is.
        heapq.heappush(heap, (load + member.bytes + 65536, number))
    return [replace(group, members=tuple(pile)) for pile in piles if pile]
