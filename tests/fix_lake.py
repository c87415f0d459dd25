"""A lake of one table, kept by a process that is ours, and what its table was."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from londiste.lake import compare as comparing
from londiste.lake.settings import LakeSettings
from londiste.lake.versions import Store, Version
from londiste.lake.worker import LakeWorker
from londiste.settings import load
from tests.fix_stream import Stream

#: Of every kind of type that a lake tells apart.
COLUMNS = (
    "id int primary key, v text, n numeric(12,3), d date, t timestamptz, l timestamp, b bytea,"
    " j jsonb, f double precision, ok boolean, a int[]"
)


@dataclass
class Lake:
    """What the commands of ``londiste lake`` do, in this process."""

    stream: Stream
    directory: Path
    more: dict[str, Any]

    def settings(self, **more: Any) -> LakeSettings:
        """Those of this lake."""
        given = {
            "db": self.stream.database.dsn,
            "queue_name": "q",
            "lake_path": str(self.directory),
            "lake_tables": "t",
            "lake_buckets": "4",
            "spark": {"spark.master": "local[2]"},
            **self.more,
            **more,
        }
        return load(LakeSettings, None, given)

    def once(self, **more: Any) -> Version:
        """All that is there."""
        with LakeWorker(self.settings(**more)) as worker:
            worker.once()
        return self.version()

    def version(self) -> Version:
        """The newest."""
        found = self.store.newest()
        assert found is not None
        return found

    @property
    def store(self) -> Store:
        """The directory of the table."""
        (table,) = comparing.chosen(self.settings(), [])
        return Store.of(self.directory, table)

    def compare(self, **more: Any) -> comparing.Result:
        """What ``compare`` finds."""
        settings = self.settings(**more)
        (table,) = comparing.chosen(settings, [])
        return comparing.compare(settings, table, limit=10, timeout=60)

    def rows(self, spark: Any, tick: int | None = None) -> Any:
        """The files of a version as they are."""
        version = self.version() if tick is None else self.store.at(tick)
        return spark.read.option("mergeSchema", "true").parquet(*self.store.paths(version.files))


def statements(chance: random.Random, *, truncate: float = 0.1) -> list[str]:
    """Some transactions that change ``t``, keys among what they change."""
    first = chance.randint(1, 120)
    made = [
        "insert into t (id, v, n, d, t, l, b, j, f, ok, a) select i, 'v' || i, i / 8.0, date"
        " '2026-01-01' + i, timestamptz '2026-03-04 05:06:07.89+02' + i * interval '1 hour',"
        " timestamp '1999-12-31 23:59' + i * interval '1 s', decode(lpad(i::text, 4, '0'), 'hex'),"
        " jsonb_build_object('k', i, 'x', 'é'), i / 3.0, i % 2 = 0, array[i, null]"
        f" from generate_series({first}, {first + chance.randint(1, 60)}) i"
        " on conflict (id) do update set v = t.v || 'x', n = excluded.n + 1",
        f"delete from t where id between {first} and {first + chance.randint(0, 30)}",
        f"update t set v = 'é{chance.random()}', b = null where id % 7 = {chance.randint(0, 6)}",
        # A key that moves, and comes back later.
        f"update t set id = id + 1000 where id % 11 = {chance.randint(0, 10)} and id < 1000"
        " and not exists (select from t x where x.id = t.id + 1000)",
        f"update t set id = id - 1000 where id > 1000 and id % 3 = {chance.randint(0, 2)}"
        " and not exists (select from t x where x.id = t.id - 1000)",
        "update t set v = v where id % 5 = 0; delete from t where id % 13 = 1;"
        " insert into t (id, v) select 5000 + i, null from generate_series(1, 3) i"
        " on conflict do nothing; delete from t where id = 5001",
    ]
    if chance.random() < truncate:
        made.append("truncate t; insert into t (id, v) values (1, 'after')")
    chance.shuffle(made)
    return made[: chance.randint(2, len(made))]
