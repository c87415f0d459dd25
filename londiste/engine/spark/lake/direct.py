"""Direct files: tasks read changes or rows and write them into files, past the JVM.

Spark hears of the files alone.  A task has a few record batches at a time.
"""

from __future__ import annotations

import json
import pickle
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from londiste.engine.spark.lake import dataframes, file_writer
from londiste.engine.spark.lake.file_writer import Place, Written
from londiste.engine.spark.lake.parts import FileFacts
from londiste.engine.spark.stream import schema
from londiste.engine.spark.stream.offsets import TickRange
from londiste.engine.spark.stream.options import Options, Payload
from londiste.engine.spark.stream.snapshot import TablePart
from londiste.engine.spark.stream.types import StreamShape

if TYPE_CHECKING:
    import pyarrow as pa

#: Operations, and their values of ``_change_type``.
KINDS = {"I": "insert", "U": "update_postimage", "D": "delete"}
_WORD = re.compile(r"%\((\w+)\)s")


@dataclass(frozen=True)
class DirectPlan:
    """What is written, and where.

    columns -- of a change, and their names in files; wanted -- StructType of the files.
    kinds -- values of ``_change_type`` that are written.
    time -- the column that selects the folder, or one time for all.
    folder -- name of a folder, with ``%(year)s`` and so on.
    after -- only changes after this event; None: all.
    """

    columns: tuple[tuple[str, str], ...]
    wanted: Any
    kinds: tuple[str, ...]
    time: str | datetime
    folder: str
    after: int | None = None


@dataclass
class _Facts:
    """What a task has read; timeless -- the first event without a time, 0: a row of the table."""

    changes: int = 0
    truncate: int | None = None
    scripts: list[int] = field(default_factory=list)
    timeless: int | None = None


def write(
    spark: Any,
    options: Options,
    parts: Sequence[TickRange | TablePart],
    shape: StreamShape,
    place: Place,
    form: str,
    plan: DirectPlan,
) -> tuple[FileFacts, int | None, list[Written]]:
    """Reads parts into files, which no commit names yet.

    Returns what they contain, the first event without a time (0: a row of the table), and the
    files.
    """
    result = schema.schema(Payload.TYPED, shape.columns, timed=options.timed)
    given = (options, list(parts), shape, result, place, form, plan)
    found = dataframes.numbered(spark, "direct.write_parts", given, len(parts), dataframes.WRITTEN)
    rows = [Written(*row) for row in found.collect()] if parts else []
    facts = [_Facts(**json.loads(row.stats)) for row in rows if not row.path]
    scripts = tuple(sorted({script for one in facts for script in one.scripts}))
    truncate = max((one.truncate for one in facts if one.truncate is not None), default=None)
    timeless = min((one.timeless for one in facts if one.timeless is not None), default=None)
    changes = sum(one.changes for one in facts)
    files = [row for row in rows if row.path]
    return FileFacts(changes, truncate, scripts, 0), timeless, files


# -- in an executor -------------------------------------------------------------------------------


def write_parts(payload: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The files of parts, and what each part contained."""
    options, parts, shape, result, place, form, plan = pickle.loads(zlib.decompress(payload))
    for number in dataframes.numbers(batches):
        facts = _Facts()
        read = dataframes.read_part(options, parts[number], shape, result)
        yield from dataframes.written(file_writer.write(place, form, _placed(read, plan, facts)))
        yield from dataframes.written([Written("", "", 0, 0, json.dumps(asdict(facts)))])


def _placed(
    batches: Iterable[pa.RecordBatch], plan: DirectPlan, facts: _Facts
) -> Iterator[pa.RecordBatch]:
    import pyarrow
    import pyarrow.compute as pc

    wanted = schema.arrow(plan.wanted)
    names = {here: there for there, here in plan.columns}
    kinds = pyarrow.array(plan.kinds)
    for batch in batches:
        _look(batch, facts)
        keep = pc.is_in(batch.column("_change_type"), value_set=kinds)
        if plan.after is not None:
            later = pc.greater(batch.column("_event_id"), plan.after)
            keep = pc.and_(keep, pc.fill_null(later, False))
        rows = batch.filter(keep)
        parts = _folders(rows, plan)
        if parts.null_count:
            # A row of the table comes from no event.
            ids = pc.fill_null(rows.filter(parts.is_null()).column("_event_id"), 0)
            found = [pc.min(ids).as_py(), facts.timeless]
            facts.timeless = min(one for one in found if one is not None)
            continue
        columns = dataframes.fitted(rows, wanted, names)
        fields = [*wanted, pyarrow.field("_part", pyarrow.string())]
        yield pyarrow.RecordBatch.from_arrays([*columns, parts], schema=pyarrow.schema(fields))


def _look(batch: pa.RecordBatch, facts: _Facts) -> None:
    """Notes what a batch contains."""
    import pyarrow.compute as pc

    kinds = batch.column("_change_type")
    scripts = batch.filter(pc.equal(kinds, "execute")).column("_event_id").to_pylist()
    truncates = batch.filter(pc.equal(kinds, "truncate")).column("_event_id").to_pylist()
    facts.scripts += scripts
    facts.changes += batch.num_rows - len(scripts)
    facts.truncate = max([*truncates, facts.truncate or 0]) or None


def _folders(rows: pa.RecordBatch, plan: DirectPlan) -> pa.Array:
    """The folder of each row."""
    import pyarrow
    import pyarrow.compute as pc

    if isinstance(plan.time, str):
        time = rows.column(plan.time)
    else:
        kind = pyarrow.timestamp("us", "UTC")
        time = pyarrow.repeat(pyarrow.scalar(plan.time, kind), rows.num_rows)
    if pyarrow.types.is_date(time.type):
        time = time.cast(pyarrow.timestamp("s"))
    width = {"year": 4, "month": 2, "day": 2, "hour": 2}
    words = []
    for number, text in enumerate(_WORD.split(plan.folder)):
        if number % 2:
            digits = getattr(pc, text)(time).cast(pyarrow.string())
            words.append(pc.utf8_lpad(digits, width[text], "0"))
        elif text:
            words.append(pyarrow.scalar(text))
    return pc.binary_join_element_wise(*words, "")
