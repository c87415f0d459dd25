"""Input and result of a large batch's tasks, as plain data.

The batch is cut by event id.  Each slice is a run of its events in their order, so what the tasks
stage is what the worker would have written itself, part after part; nothing has to be kept
together or apart: a key may occur in every slice, a packed event is in one, and tables without a
key or emptied in between need no rule of their own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from londiste.changes.types import SystemEvent
from londiste.db.names import TableName
from londiste.db.relation import Relation
from londiste.pgq.batches import BlockRange
from londiste.pgq.types import Batch
from londiste.replication.apply.routing import RoutingTable

#: Events of a slice: enough that a task is worth its start, few enough that a lost one is not.
SLICE_EVENTS = 500_000
#: Kind of a chunk without rows.
TRUNCATE = "truncate"
#: Slices for each task that can run at a time: what is lost with a task is done again.
SLICES_PER_TASK = 4


@dataclass(frozen=True)
class Slice:
    """One task: the events with ids from ``first`` on, below ``end``.

    None: there is no bound on that side.

    events -- their number.
    pages -- by event table the first and the last page on which they lie; None: so many others lie
        there that it is better to look for these.
    """

    number: int
    first: int | None
    end: int | None
    events: int
    pages: Mapping[str, tuple[int, int]] | None

    @property
    def condition(self) -> str:
        """As SQL over ``ev_id``; '' for all."""
        bounds = []
        if self.first is not None:
            bounds.append(f"ev_id >= {self.first}")
        if self.end is not None:
            bounds.append(f"ev_id < {self.end}")
        return " and ".join(bounds)


@dataclass(frozen=True)
class StageSpec:
    """The input that all tasks of a job share.

    source, target -- connection strings.
    shapes -- the tables of this node that may occur.
    flush_bytes -- estimated size of the changes that a task folds together.
    """

    queue: str
    node: str
    attempt: int
    source: str = field(repr=False)
    target: str = field(repr=False)
    batch: Batch
    interest: RoutingTable
    shapes: Mapping[TableName, Relation]
    flush_bytes: int


@dataclass(frozen=True)
class StageTask:
    """One slice; pickles."""

    spec: StageSpec
    slice: Slice

    def __str__(self) -> str:
        return f"slice {self.slice.number} of a large batch"


@dataclass(frozen=True)
class SliceChunk:
    """Some rows for one statement, staged under (slice, number).

    kind -- a Verb, or TRUNCATE.
    rows -- of them; 0 for truncate, which has nothing staged.
    """

    number: int
    table: TableName
    kind: str
    columns: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    rows: int = 0


@dataclass
class StagedSlice:
    """What a task has staged, in the order in which it is to be written.

    messages -- of the cascade to itself.
    left -- tables that have to be applied serially, and why.
    refused -- why the whole batch has to; '' if not.
    """

    events: int = 0
    applied: int = 0
    chunks: list[SliceChunk] = field(default_factory=list)
    messages: list[SystemEvent] = field(default_factory=list)
    left: dict[TableName, str] = field(default_factory=dict)
    refused: str = ""

    def dump(self) -> str:
        """As JSON."""
        # Tables and lists of columns repeat from chunk to chunk.
        lists: dict[tuple[Any, ...], int] = {}
        chunks = [
            (
                c.number,
                lists.setdefault((c.table, c.kind, c.columns, c.key), len(lists)),
                c.rows,
            )
            for c in self.chunks
        ]
        return json.dumps(
            {
                "events": self.events,
                "applied": self.applied,
                "what": list(lists),
                "chunks": chunks,
                "messages": self.messages,
                "left": [[*table, why] for table, why in self.left.items()],
                "refused": self.refused,
            }
        )

    @classmethod
    def load(cls, text: str) -> StagedSlice:
        """From JSON."""
        value = json.loads(text)
        what = [
            (TableName(*table), str(kind), tuple(columns), tuple(key))
            for table, kind, columns, key in value["what"]
        ]
        chunks = []
        for number, index, rows in value["chunks"]:
            table, kind, columns, key = what[index]
            chunks.append(SliceChunk(number, table, kind, columns, key, rows))
        return cls(
            value["events"],
            value["applied"],
            chunks,
            [SystemEvent(*message) for message in value["messages"]],
            {TableName(schema, name): why for schema, name, why in value["left"]},
            value["refused"],
        )


def cut(
    spread: Sequence[BlockRange], parallel: int, slice_events: int = SLICE_EVENTS
) -> list[Slice]:
    """Slices of about the same number of events, at least one.

    spread -- the ranges of ids that have events, in order.
    """
    total = sum(stretch.events for stretch in spread)
    wanted = max(-(-total // slice_events), parallel)
    count = max(1, min(wanted, parallel * SLICES_PER_TASK))
    groups: list[list[BlockRange]] = [[]]
    before = 0
    for stretch in spread:
        # A stretch that lies in two tables is not cut.
        new = not groups[-1] or stretch.first_id != groups[-1][-1].first_id
        if before and new and before * count >= total * len(groups):
            groups.append([])
        groups[-1].append(stretch)
        before += stretch.events
    bounds = [group[0].first_id for group in groups[1:]]
    return [
        Slice(number, first, end, sum(stretch.events for stretch in group), _pages(group))
        for number, (group, first, end) in enumerate(
            zip(groups, [None, *bounds], [*bounds, None], strict=True)
        )
    ]


def _pages(stretches: Sequence[BlockRange]) -> dict[str, tuple[int, int]] | None:
    pages: dict[str, tuple[int, int]] = {}
    for one in stretches:
        first, last = pages.get(one.table, (one.first_page, one.last_page))
        pages[one.table] = min(first, one.first_page), max(last, one.last_page)
    count = sum(last - first for first, last in pages.values())
    return pages if count <= sum(one.events for one in stretches) else None
