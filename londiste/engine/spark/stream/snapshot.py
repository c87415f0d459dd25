"""Table rows at one snapshot, and the session that holds it.

Every row is in one block, and has one version in one snapshot: ranges that cover all blocks contain
every row once.  A snapshot exists until the transaction that exported it ends.

The tick of the rows is the newest that the snapshot sees.  Events after it whose transactions the
snapshot also sees are in the rows; so the rows are followed by the events after that tick without
those.  This creates no tick and locks nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from londiste.db import catalog
from londiste.db.connection import Connection, connect, session, whereabouts
from londiste.db.copy import unescaped
from londiste.db.queries import flush_commits, translated, tuples
from londiste.db.sessions.view_guard import refuse_views
from londiste.engine.spark.stream.options import Options
from londiste.engine.spark.stream.rows import batches
from londiste.engine.spark.stream.typed_rows import Typed
from londiste.engine.spark.stream.types import StreamShape, converter
from londiste.errors import StateError, TableChanged, from_database
from londiste.pgq import blocks, ticks
from londiste.pgq.types import Tick

if TYPE_CHECKING:
    import pyarrow as pa

#: Fewer blocks are not worth a task of their own: 8 MB.
WORTH_A_TASK = 1024

_BEGIN = "begin transaction isolation level repeatable read, read only"


@dataclass(frozen=True)
class TablePart:
    """A part of the rows of a table, which one task reads.

    snapshot -- its name; empty: the task takes its own, and is the only one.
    condition -- on ctid, as SQL; empty: all rows.
    """

    snapshot: str = ""
    condition: str = ""


class SnapshotSession:
    """A snapshot that is kept until ``close``.

    name -- for other sessions; seen -- what it sees; tick -- the newest tick that it sees.
    """

    def __init__(self, options: Options) -> None:
        self._conn = connect(
            options.conninfo, name=f"londiste-spark {options.queue} snapshot", autocommit=True
        )
        try:
            self.name, self.seen = _export(self._conn)
            name = f"londiste-spark {options.queue} snapshot"
            with session(options.conninfo, name=name, autocommit=True) as conn:
                flush_commits(conn)
            self.tick = _tick(self._conn, options.queue)
        except BaseException:
            self._conn.close()
            raise

    def close(self) -> None:
        """Lets it go."""
        self._conn.close()

    @property
    def is_alive(self) -> bool:
        """Whether its session is still there."""
        try:
            self._conn.execute("select")
        except psycopg.Error:
            return False
        return True


def table_parts(conn: Connection, options: Options, snapshot: str) -> list[TablePart]:
    """The parts of a table.  Raises UnknownTable."""
    info = catalog.require(conn, options.table, hint=catalog.OF_OPTIONS)
    pages = max(info.leaf_pages, default=info.pages)
    count = max(1, min(options.partitions, pages // WORTH_A_TASK)) if snapshot else 1
    bounds = [pages * number // count for number in range(1, count)]
    found = []
    for low, high in zip([None, *bounds], [*bounds, None], strict=True):
        conditions = []
        if low is not None:
            conditions.append(f"ctid >= '({low},0)'::tid")
        if high is not None:
            # The last has no end: the table may have grown meanwhile.
            conditions.append(f"ctid < '({high},0)'::tid")
        found.append(TablePart(snapshot, " and ".join(conditions)))
    return found


def rows(
    options: Options, part: TablePart, shape: StreamShape, result: Any
) -> Iterator[pa.RecordBatch]:
    """In an executor: the rows of a part, as inserts that came with the tick of the snapshot.

    Raises StateError when the snapshot no longer exists, TableChanged when the table was rewritten.
    """
    with session(options.conninfo, name=f"londiste-spark {options.queue}", autocommit=True) as conn:
        try:
            conn.execute(_BEGIN)
            if part.snapshot:
                conn.execute(
                    sql.SQL("set transaction snapshot {}").format(sql.Literal(part.snapshot))
                )
        except (psycopg.errors.UndefinedObject, psycopg.errors.InvalidParameterValue):
            raise StateError(
                f"snapshot {part.snapshot} no longer exists",
                detail="the session that exported it has ended",
                hint="keep it open until the job ends: with londiste.spark.snapshot(…)",
            ) from None
        except psycopg.Error as error:
            raise from_database(error, where=whereabouts(conn)) from error
        yield from batches(_values(conn, options, part, shape), result)


def _values(
    conn: Connection, options: Options, part: TablePart, shape: StreamShape
) -> Iterator[tuple[int, Sequence[Any]]]:
    table = options.table
    tick = _tick(conn, options.queue)
    info = catalog.require(conn, table, hint=catalog.OF_OPTIONS)
    statement = sql.SQL("select {} from {}").format(
        sql.SQL(", ").join(sql.Identifier(column.name) for column in shape.columns),
        table.own(info.tree) if info.kind in "rp" else table.sql,
    )
    if part.condition:
        statement = sql.SQL(" where ").join([statement, sql.SQL(part.condition)])
    typed = Typed(table, shape.columns, options.values)
    convert = [converter(column, options.values) for column in shape.columns]
    meta = ("insert", tick.id, tick.time, None, 0, None, str(table))
    refuse_views(conn, table)
    for block in blocks.read(conn, statement.as_string(conn)):
        for line in block.lines():
            values = []
            for number, field in enumerate(line.split("\t")) if convert else ():
                text = unescaped(field)
                values.append(
                    None
                    if text is None
                    else typed.value(
                        number, convert[number], text, "in a row of the snapshot", None
                    )
                )
            yield len(line), (*values, *meta)
    if catalog.moved(conn, table):
        # Such statements make a table look empty to snapshots from before.
        raise TableChanged(
            f"table {table}: rewritten during the read",
            detail="by TRUNCATE, ALTER TABLE or a similar statement",
            hint="repeat the read",
        )


def _tick(conn: Connection, queue: str) -> Tick:
    tick = ticks.newest(conn, queue)
    if tick is None:
        raise StateError(f"queue {queue} has no tick", hint="start the ticker: londiste ticker")
    return tick


def _export(conn: Connection) -> tuple[str, str]:
    """Name and text of a snapshot that lives as long as the transaction that begins here."""
    with translated(conn):
        conn.execute(_BEGIN)
    ((name, snapshot),) = tuples(conn, "export_snapshot")
    return name, snapshot


@contextlib.contextmanager
def exported(dsn: str, password: str) -> Iterator[str]:
    """Name of a snapshot that is kept for the length of a with block."""
    full = make_conninfo(dsn, **({"password": password} if password else {}))
    with session(full, name="londiste-spark snapshot", autocommit=True) as conn:
        yield _export(conn)[0]
