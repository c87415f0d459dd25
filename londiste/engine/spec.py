"""Specifications of engine work as plain, picklable data, without connections or callbacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from londiste.db.names import TableName
from londiste.db.table_fingerprint import Fingerprint, Shape
from londiste.errors import LondisteError


@dataclass(frozen=True)
class Chunk:
    """One piece of a table: the task of one executor.

    condition -- SQL for a WHERE clause over the source table (a ctid or key range), '' for all.
    number -- position in the table's list of chunks; with the attempt it is the done-mark's key.
    bytes, rows -- estimates, for order and progress only.
    """

    table: TableName
    number: int
    condition: str
    bytes: int
    rows: int


@dataclass(frozen=True)
class CopySpec:
    """Copy one table from ``source`` to ``target``.

    source, target -- connection strings.
    snapshot -- name exported by a transaction that the caller keeps open; every chunk reads in it.
        '' lets each chunk read in a snapshot of its own, which its done-mark contains.
    columns -- (source column, target column) pairs, in the order of the copy.
    attempt -- number of this copy of the table; a task of an older attempt must not write.
    binary -- both sides agree on types and versions, so that the binary format is safe.
    where -- row condition on the source, '' for all rows.
    rows -- transforms every row between the two databases; pure, and pickles.
    keeps -- whether a column of the source is copied; None: all are.
    table_name -- the table's name in the queue, '' when it is the source table's.
    filenode -- the source table's storage as it was split into chunks; a chunk that finds
        another one fails, because its rows may have moved between chunks.  None: not checked.
    source_mark, target_mark -- the tables as they were paired; a chunk that finds others fails.
        None: not checked.
    source_shape -- the same of the source's columns, for chunks in one snapshot: they see
        the old catalog, while their statements use the current columns.
    source_tree, target_tree -- the table is partitioned: its rows are those of its partitions.
    answer_seconds -- a source that sends nothing for this time and does not work is lost.
    """

    queue: str
    source: str
    target: str
    source_table: TableName
    target_table: TableName
    columns: tuple[tuple[str, str], ...]
    chunks: tuple[Chunk, ...]
    snapshot: str
    attempt: int
    binary: bool = False
    where: str = ""
    rows: Callable[[dict[str, str | None]], dict[str, str | None]] | None = None
    keeps: Callable[[str], bool] | None = None
    table_name: str = ""
    filenode: int | None = None
    source_mark: Fingerprint | None = None
    target_mark: Fingerprint | None = None
    source_shape: Shape | None = None
    source_tree: bool = False
    target_tree: bool = False
    answer_seconds: float | None = None

    @property
    def name(self) -> str:
        """The table's name in the queue and in the done-marks."""
        return self.table_name or str(self.source_table)


@dataclass(frozen=True)
class ChunkDone:
    """Result of a chunk's task: rows and bytes it moved (0 when it had been done before)."""

    table: TableName
    number: int
    rows: int
    bytes: int
    seconds: float


@dataclass(frozen=True)
class Member:
    """One of several small tables that are copied together, whole.

    table_name -- its name in the queue.
    columns, binary, attempt, source_shape, target_mark -- as in ``CopySpec``.
    bytes -- size, for order and balance only.
    """

    table_name: str
    source_table: TableName
    target_table: TableName
    columns: tuple[tuple[str, str], ...]
    attempt: int
    binary: bool
    source_shape: Shape
    target_mark: Fingerprint
    bytes: int


@dataclass(frozen=True)
class GroupSpec:
    """Copy small tables one after the other, by one task: the share of a group.

    snapshot -- as in ``CopySpec``; all tables of a group are read in the same one.
    answer_seconds -- as in ``CopySpec``.
    """

    queue: str
    source: str
    target: str
    snapshot: str
    members: tuple[Member, ...]
    answer_seconds: float | None = None

    def __str__(self) -> str:
        first, more = self.members[0].table_name, len(self.members) - 1
        return f"copy of {first}" + (f" and {more} more tables" if more else "")


@dataclass(frozen=True)
class MemberDone:
    """Result of a member: rows and bytes that were moved, or its error."""

    table_name: str
    rows: int
    bytes: int
    seconds: float
    error: LondisteError | None = None


@dataclass(frozen=True)
class CompareSpec:
    """Count and checksums of a piece of a table on one side, in a snapshot that the caller keeps.

    columns -- SQL expressions, one for each compared column; none: rows are counted only.
    forms -- of each column in the text of a row (``row_hash``); none: by a row constructor.
    where -- row condition, '' for all rows.
    number, condition -- the piece: which one, and the rows that are in it.
    key -- SQL expressions; by the hash of their text rows are told apart into buckets.
    buckets -- how many, a power of two; 1: the sums are those of all rows of the piece.
    children -- with the rows of partitions; of a table that is only inherited from they are not.
    answer_seconds -- as in ``CopySpec``.
    """

    side: str
    dsn: str
    table: TableName
    columns: tuple[str, ...]
    snapshot: str
    where: str = ""
    number: int = 0
    condition: str = ""
    key: tuple[str, ...] = ()
    buckets: int = 1
    children: bool = False
    answer_seconds: float | None = None
    forms: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"checksum of {self.table} on the {self.side}"


#: Rows, and two sums of differently seeded 64-bit hashes.
Sums = tuple[int, int, int]


@dataclass(frozen=True)
class Checksum:
    """Order-free fingerprint of a piece of a table, by bucket; buckets without rows are omitted.

    seconds -- how long the server read.
    moved -- the sums are invalid: TRUNCATE or ALTER TABLE removed rows from the snapshot.
    """

    side: str
    table: TableName
    number: int
    buckets: dict[int, Sums]
    seconds: float = 0.0
    moved: bool = False

    @property
    def rows(self) -> int:
        """Of all buckets."""
        return sum(sums[0] for sums in self.buckets.values())

    @property
    def sum1(self) -> int:
        """Of all buckets."""
        return sum(sums[1] for sums in self.buckets.values())

    @property
    def sum2(self) -> int:
        """Of all buckets."""
        return sum(sums[2] for sums in self.buckets.values())
