"""A large batch as a job: what a task is given, and what it leaves behind.  Plain data.

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
from londiste.db.shape import TableShape
from londiste.pgq.types import Batch
from londiste.replication.plan import Interest

#: Events of a slice: enough that a task is worth its start, few enough that a lost one is not.
SLICE_EVENTS = 500_000
#: Kind of a chunk without rows.
TRUNCATE = "truncate"
#: Slices for each task that can run at a time.  Every slice scans the whole batch on the source.
SLICES_PER_TASK = 4


@dataclass(frozen=True)
class Slice:
    """One task: the events with ids from ``first`` on, below ``end``.

    None: there is no bound on that side.
    """

    number: int
    first: int | None
    end: int | None

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
    """What all tasks of a job have in common.

    source, target -- connection strings.
    shapes -- the tables of this node that may be met.
    flush_bytes -- estimated size of the changes that a task folds together.
    """

    queue: str
    node: str
    attempt: int
    source: str = field(repr=False)
    target: str = field(repr=False)
    batch: Batch
    interest: Interest
    shapes: Mapping[TableName, TableShape]
    flush_bytes: int


@dataclass(frozen=True)
class StageTask:
    """One slice; pickles."""

    spec: StageSpec
    slice: Slice


@dataclass(frozen=True)
class Chunk:
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
class Staged:
    """What a task has staged, in the order in which it is to be written.

    messages -- of the cascade to itself.
    left -- tables that have to go the ordinary way, and why.
    refused -- why the whole batch has to; '' if it has not.
    """

    events: int = 0
    applied: int = 0
    chunks: list[Chunk] = field(default_factory=list)
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
    def load(cls, text: str) -> Staged:
        """From JSON."""
        value = json.loads(text)
        what = [
            (TableName(*table), str(kind), tuple(columns), tuple(key))
            for table, kind, columns, key in value["what"]
        ]
        chunks = []
        for number, index, rows in value["chunks"]:
            table, kind, columns, key = what[index]
            chunks.append(Chunk(number, table, kind, columns, key, rows))
        return cls(
            value["events"],
            value["applied"],
            chunks,
            [SystemEvent(*message) for message in value["messages"]],
            {TableName(schema, name): why for schema, name, why in value["left"]},
            value["refused"],
        )


def cut(
    spread: Sequence[tuple[int, int]], parallel: int, slice_events: int = SLICE_EVENTS
) -> list[Slice]:
    """Slices of about the same number of events, at least one.

    spread -- (first id, events) of stretches of ids, in order.
    """
    total = sum(events for _, events in spread)
    wanted = max(-(-total // slice_events), parallel)
    count = max(1, min(wanted, parallel * SLICES_PER_TASK))
    bounds: list[int] = []
    before = 0
    for first, events in spread:
        if before and before * count >= total * (len(bounds) + 1):
            bounds.append(first)
        before += events
    return [
        Slice(number, first, end)
        for number, (first, end) in enumerate(zip([None, *bounds], [*bounds, None], strict=True))
    ]
