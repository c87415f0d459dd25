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
from typing import Annotated, Generic, Self, TypeVar

from pydantic import BeforeValidator, PlainSerializer, TypeAdapter

from londiste.changes.types import SystemEvent
from londiste.db.names import TableName
from londiste.pgq.batches import BlockRange
from londiste.pgq.types import Batch

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

    queue, attempt -- of ``sqlapi.apply_start``.
    source, target -- connection strings.
    where -- condition over the columns of an event; '' for all.
    answer_seconds -- a server that sends nothing for this time, and does not work, is lost.
    """

    queue: str
    attempt: int
    source: str = field(repr=False)
    target: str = field(repr=False)
    batch: Batch
    where: str
    answer_seconds: float | None = field(default=None, kw_only=True)

    def condition(self, part: Slice) -> str | None:
        """SQL condition for the events of the slice."""
        found = [text for text in (part.condition, self.where) if text]
        # The line breaks keep a comment at the end of a condition from swallowing the rest.
        return " and ".join(f"(\n{text}\n)" for text in found) or None


S = TypeVar("S", bound=StageSpec)


@dataclass(frozen=True)
class StageTask(Generic[S]):
    """One slice; pickles."""

    spec: S
    slice: Slice

    def __str__(self) -> str:
        return f"slice {self.slice.number} of a batch of queue {self.spec.batch.queue}"


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


#: Reasons by table; as JSON a list, because its keys are no texts.
Reasons = Annotated[
    dict[TableName, str],
    BeforeValidator(lambda found: {TableName(*table): why for table, why in found}),
    PlainSerializer(lambda found: list(found.items())),
]


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
    left: Reasons = field(default_factory=dict)
    refused: str = ""

    def dump(self) -> str:
        """As JSON, in ASCII: the database may have another encoding."""
        return json.dumps(TypeAdapter(type(self)).dump_python(self, mode="json"))

    @classmethod
    def load(cls, text: str) -> Self:
        """From JSON."""
        return TypeAdapter(cls).validate_json(text)


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
