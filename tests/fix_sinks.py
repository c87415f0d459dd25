"""A stream of files into a queue or into tables, which is killed and started again."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from londiste.pgq import queues
from londiste.pgq import spark_epochs as sinks
from tests.fix_cluster import Database
from tests.fix_spark import run_query

#: Where the processes of a query are killed.
SINK_POINTS = ("sink.mid-stage", "sink.staged", "sink.mid-commit", "sink.after-commit")
SCHEMA = "id int, ev_type string, ev_data string"
#: When the files were written, by what they say; seconds.
_FIRST = 1_700_000_000


def next_epoch(checkpoint: Path) -> int:
    """The epoch with which a query begins, by what Spark has noted of it."""
    done = [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")]
    return max(done, default=-1) + 1


@dataclass
class Sink:
    """A database with a queue ``q``, and a query of Spark that writes from files.

    directory -- of the files and of checkpoints.
    """

    spark: Any
    database: Database
    directory: Path
    schema: str = SCHEMA
    fed: int = 0

    def __post_init__(self) -> None:
        self.conn = self.database.connect()
        queues.create_queue(self.conn, "q")
        self.files.mkdir()

    @property
    def files(self) -> Path:
        """Where the source of the stream looks."""
        return self.directory / "files"

    def feed(self, rows: Sequence[Sequence[Any]], names: Sequence[str] = ()) -> None:
        """One file, which is in one epoch."""
        known = names or [one.split()[0] for one in self.schema.split(",")]
        lines = [json.dumps(dict(zip(known, row, strict=True))) for row in rows]
        self.fed += 1
        path = self.files / f"{self.fed:06}.json"
        half = self.directory / "half"
        half.write_text("\n".join(lines) + "\n", encoding="utf-8")
        # Spark takes files in the order of their times, which for quick ones are the same.
        os.utime(half, (_FIRST + self.fed, _FIRST + self.fed))
        half.rename(path)

    def frame(self) -> Any:
        """The stream, a file in each epoch."""
        return (
            self.spark.readStream.schema(self.schema)
            .option("maxFilesPerTrigger", 1)
            .json(str(self.files))
        )

    def run(
        self, frame: Any = None, *, format: str = "pgq", checkpoint: str = "c", **options: Any
    ) -> None:
        """A query that ends when all files are written."""
        given = {
            "dsn": self.database.dsn,
            **({} if "table" in format else {"queue": "q"}),
            **options,
        }
        if frame is None:
            frame = self.frame().select("ev_type", "ev_data")
        query = (
            frame.writeStream.format(format)
            .options(**given)
            .option("checkpointLocation", str(self.directory / checkpoint))
            .trigger(availableNow=True)
        )
        run_query(query.start, 300)

    def run_killed(
        self, point: str, frame: Any = None, *, format: str = "pgq_killed", **options: Any
    ) -> bool:
        """Runs with a process killed at a point, then again; whether it came to that point.

        point -- with ``:n`` that of the n-th epoch from now on.
        """
        mark = self.directory / f"killed{len(list(self.directory.glob('killed*')))}"
        place, _, which = point.partition(":")
        epoch = next_epoch(self.directory / "c") + int(which or 1) - 1
        more = {"format": format, "crash": place, "mark": str(mark), "epoch": epoch, **options}
        try:
            self.run(frame, **more)
        except Exception as error:
            assert mark.exists(), error
        self.run(frame, **more)
        return mark.exists()

    def events(self) -> list[Any]:
        """Type, data and extras of the events, in their order."""
        return self.database.execute(
            "select ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4"
            " from pgq.event_template order by ev_id"
        )

    def sinks(self) -> list[sinks.Sink]:
        """What the database knows of them."""
        return sinks.get_sinks(self.conn)

    def data(self) -> list[str]:
        """The data of the events, in their order."""
        return [row[1] for row in self.events()]

    def staged(self) -> list[Any]:
        """Tables of staged rows that are left."""
        return self.database.execute(
            "select relname from pg_class where relname like 'staged%' and relkind = 'r'"
        )
