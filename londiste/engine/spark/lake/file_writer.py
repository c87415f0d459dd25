"""File writer of a task: record batches into the files of a table's parts.

A file has the name of its attempt and the digest of its content.  It belongs to the table when a
commit names it; the files of an attempt that failed are never named, and vacuum removes them.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import math
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from londiste.daemon.files import flush
from londiste.errors import BadOption

if TYPE_CHECKING:
    import pyarrow as pa

#: A file ends with the batch that makes it this large, a row group likewise.
FILE_ROWS = 2_000_000
GROUP_ROWS = 250_000
GROUP_BYTES = 32 << 20
#: Files that a task writes at a time.
OPEN_FILES = 8
#: Bytes of one upload into an object store.
_BUFFER = 8 << 20
#: Longer texts are not in the statistics of a file.
_LONGEST = 64
_DIGEST = re.compile(r"-([0-9a-f]{64})\.\w+$")


def require() -> Any:
    """The package deltalake.  Raises BadOption where it is missing."""
    try:
        import deltalake
    except ImportError:
        raise BadOption(
            "lake: the package deltalake is not installed", hint="pip install 'londiste4[lake]'"
        ) from None
    return deltalake


@dataclass(frozen=True)
class Place:
    """The directory of a table.

    uri -- path of a directory, or address in an object store.
    storage -- options of the object store, as the package deltalake knows them.
    """

    uri: str
    storage: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether it is a directory of a file system."""
        return "://" not in self.uri

    def address(self, path: str) -> str:
        """The path or address of a file."""
        return f"{self.uri}/{path}"

    @property
    def files(self) -> Any:
        """The directory as a file system of Arrow."""
        from pyarrow import fs

        if self.is_local:
            return fs.SubTreeFileSystem(self.uri, fs.LocalFileSystem())
        require()
        from deltalake.fs import DeltaStorageHandler

        return fs.PyFileSystem(DeltaStorageHandler(self.uri, dict(self.storage)))

    def damage(self, path: str) -> str:
        """What is wrong with a file; '' if it has the digest of its name.

        Files of other programs have no digest; they are read.
        """
        import pyarrow.parquet

        found = _DIGEST.search(path)
        try:
            with self.files.open_input_file(path) as file:
                if found is None:
                    for _ in pyarrow.parquet.ParquetFile(file).iter_batches():
                        pass
                elif hashlib.file_digest(_Reader(file), "sha256").hexdigest() != found[1]:
                    return f"{path}: content differs from what was written"
        except (OSError, pyarrow.ArrowException) as error:
            text = "No such file" if isinstance(error, FileNotFoundError) else str(error)
            return f"{path}: {text}"
        return ""


class _Reader:
    """A file of Arrow, as hashlib reads it."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return int(self._file.readinto(buffer))


@dataclass(frozen=True)
class Written:
    """A file that a task has written.

    path -- below the directory of the table; part -- what it contains: ``day=2026-01-31``,
    ``bucket=0007``, ``closed`` or a folder.  stats -- as in the log of a Delta table.
    """

    path: str
    part: str
    rows: int
    bytes: int
    stats: str


def write(
    place: Place, form: str, batches: Iterable[pa.RecordBatch], *, file_rows: int = FILE_ROWS
) -> Iterator[Written]:
    """Writes rows into files of their ``_part``; each file is on disk when it is returned."""
    attempt = uuid.uuid4().hex[:12]
    files: dict[str, _Out] = {}
    count = 0
    try:
        for batch in batches:
            for part, rows in _by_part(batch):
                out = files.pop(part, None)
                if out is None:
                    while len(files) >= OPEN_FILES:
                        yield _closed(files, next(iter(files)))
                    out = _Out(place, form, part, f"{attempt}-{count:05d}")
                    count += 1
                # The one that was used last is the last to go.
                files[part] = out
                out.add(rows)
                if out.rows >= file_rows:
                    yield _closed(files, part)
        while files:
            yield _closed(files, next(iter(files)))
    finally:
        for out in files.values():
            out.abandon()


def _closed(files: dict[str, _Out], part: str) -> Written:
    """Closes the file of a part; one that cannot be closed stays among those to abandon."""
    written = files[part].close()
    del files[part]
    return written


def _by_part(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    import pyarrow.compute as pc

    if not batch.num_rows:
        return
    parts = batch.column("_part")
    rows = batch.drop_columns(["_part"])
    wanted = parts.unique().to_pylist()
    for part in wanted:
        yield part, rows if len(wanted) == 1 else rows.filter(pc.equal(parts, part))


class _Out:
    """A file that is being written, under another name until it is whole."""

    def __init__(self, place: Place, form: str, part: str, name: str) -> None:
        self._place, self._form, self._part, self._name = place, form, part, name
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = self.rows = 0
        self._writer: Any = None
        if place.is_local:
            folder = Path(place.uri, "data", part)
            folder.mkdir(parents=True, exist_ok=True)
        else:
            folder = Path(tempfile.gettempdir())
        self._path = folder / f"{name}.tmp"
        self._file: IO[bytes] = self._path.open("xb")

    def add(self, batch: pa.RecordBatch) -> None:
        """Some more rows."""
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        self.rows += batch.num_rows
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._write()

    def _write(self) -> None:
        import pyarrow

        table = pyarrow.Table.from_batches(self._waiting)
        self._waiting, self._rows, self._bytes = [], 0, 0
        if self._form in ("csv", "json"):
            table = _as_texts(table)
        if self._writer is None:
            self._writer = _writer(self._form, self._file, table.schema)
        self._writer.write(table)

    def close(self) -> Written:
        """The file under its name, flushed to disk."""
        import pyarrow.parquet

        if self._waiting:
            self._write()
        self._writer.close()
        self._file.close()
        stats: dict[str, Any] = {"numRecords": self.rows}
        if self._form == "parquet":
            stats |= _statistics(pyarrow.parquet.read_metadata(self._path))
        with self._path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = self._path.stat().st_size
        path = f"data/{self._part}/{self._name}-{digest}.{self._form}"
        if self._place.is_local:
            target = Path(self._place.uri, path)
            flush(self._path)
            self._path.rename(target)
            folder = target.parent
            while folder != Path(self._place.uri).parent:
                flush(folder)
                folder = folder.parent
        else:
            stream = self._place.files.open_output_stream(path, buffer_size=_BUFFER)
            with self._path.open("rb") as source, stream as out:
                shutil.copyfileobj(source, out, _BUFFER // 8)
            self._path.unlink()
        return Written(path, self._part, self.rows, size, json.dumps(stats))

    def abandon(self) -> None:
        """Removes what is there of it."""
        # A full disk does not take what is in the buffer.
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


def _writer(form: str, file: IO[bytes], schema: pa.Schema) -> Any:
    match form:
        case "parquet":
            import pyarrow.parquet

            return pyarrow.parquet.ParquetWriter(file, schema, write_page_checksum=True)
        case "orc":
            import pyarrow.orc

            return pyarrow.orc.ORCWriter(file, compression="zstd")
        case "csv":
            import pyarrow.csv

            return pyarrow.csv.CSVWriter(file, schema)
        case _:
            return _JsonWriter(file)


def _as_texts(table: pa.Table) -> pa.Table:
    """Times and bytes as texts, so that nothing of a value is lost or added."""
    import pyarrow
    import pyarrow.compute as pc

    for number, column in enumerate(table.columns):
        kind = table.schema.field(number).type
        if pyarrow.types.is_timestamp(kind):
            text = pc.strftime(column, "%Y-%m-%dT%H:%M:%S" + ("Z" if kind.tz else ""))
        elif pyarrow.types.is_date(kind):
            text = column.cast(pyarrow.string())
        elif pyarrow.types.is_float32(kind):
            text = column.cast(pyarrow.string()).cast(pyarrow.float64())
        elif pyarrow.types.is_binary(kind):
            values = [v and base64.b64encode(v).decode() for v in column.to_pylist()]
            text = pyarrow.chunked_array([pyarrow.array(values, pyarrow.string())])
        else:
            continue
        table = table.set_column(number, table.schema.field(number).name, text)
    return table


class _JsonWriter:
    """Writes an object a line."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, table: pa.Table) -> None:
        names = [json.dumps(name, ensure_ascii=False) for name in table.column_names]
        columns = [map(_json, column.to_pylist()) for column in table.columns]
        for row in zip(*columns, strict=True):
            line = ",".join(f"{name}:{text}" for name, text in zip(names, row, strict=True))
            self._file.write(f"{{{line}}}\n".encode())

    def close(self) -> None:
        self._file.flush()


def _json(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}[str(value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return json.dumps(value, ensure_ascii=False)
    # A decimal, with all its digits.
    return format(value, "f")


def _statistics(metadata: Any) -> dict[str, Any]:
    """The smallest and largest values of columns, as the log of a Delta table has them."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    groups = range(metadata.num_row_groups)
    for number, field_ in enumerate(metadata.schema.to_arrow_schema()):
        found = [metadata.row_group(group).column(number).statistics for group in groups]
        if any(one is None or not one.has_null_count for one in found):
            continue
        nulls[field_.name] = sum(one.null_count for one in found)
        limits = [(one.min, one.max) for one in found if one.has_min_max]
        if limits and len(limits) == sum(one.num_values > 0 for one in found):
            smallest = _limit(min(limit[0] for limit in limits))
            largest = _limit(max(limit[1] for limit in limits))
            if smallest is not None and largest is not None:
                low[field_.name], high[field_.name] = smallest, largest
    return {"minValues": low, "maxValues": high, "nullCount": nulls}


def _limit(value: Any) -> Any:
    """A value in statistics; None if there is none that all readers understand."""
    from datetime import date, datetime

    if isinstance(value, datetime):
        return None
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
