"""kill -9 of ``londiste dispatch`` and of its tasks at every point: no gap, no row twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from londiste.pgq import queues
from tests.fixtures.cluster import Database
from tests.integration.consumer.test_dispatch_presets import QUEUE, Ends

#: The program dies there, or a task of it does.
PROGRAM = (
    "consumer.after-next-batch",
    "large.begun",
    "large.mid-merge",
    "consumer.processed",
    "consumer.before-commit",
    "consumer.after-commit",
    "consumer.before-finish",
    "consumer.after-finish",
)
TASK = ("large.mid-slice", "large.after-slice")
CHEAP = {("local", "consumer.before-commit")}


@pytest.fixture
def ends(pgq_db: Database, new_database: Callable[..., Database]) -> Ends:
    queues.create_queue(pgq_db.connect(), QUEUE)
    return Ends(pgq_db, new_database(pgq=True))


def program(ends: Ends, engine: str, file: Path) -> list[str]:
    """A file of settings as people write it, and the command."""
    file.write_text(
        f"""
[dispatch]
job_name = to_archive
db = {ends.source.dsn}
target_db = {ends.target.dsn}
queue_name = {QUEUE}
handler = dispatch
table_mode = ignore
engine = {engine}
spark.master = local[2,4]
parallel_apply_min_events = 100

[table public.versions]
table_mode = part
row_mode = keep_all
part_mode = date_field
part_field = at
period = month
part_name = %%(parent)s_of_%%(year)s%%(month)s

[table public.latest]
handler = monthly_field
part_field = at
retention_period = 1 month
ignore_old_events = 1
"""
    )
    file.chmod(0o600)
    return [sys.executable, "-m", "londiste", "-c", str(file), "dispatch", "--once"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "point"),
    [
        pytest.param(
            engine,
            point,
            marks=[]
            if (engine, point) in CHEAP
            else [pytest.mark.slow, *([pytest.mark.spark] if engine == "spark" else [])],
        )
        for engine in ("local", "spark")
        for point in (*PROGRAM, *TASK)
    ],
)
@pytest.mark.timeout(900)
def test_a_dispatcher_killed_at(engine: str, point: str, ends: Ends, tmp_path: Path) -> None:
    ends.table("versions", key=False)
    ends.table("latest")
    ends.table("passed")
    ends.target.execute("create table latest_2001_02 () inherits (latest)")
    command = program(ends, engine, tmp_path / "to_archive.ini")
    subprocess.run([*command, "--register"], check=True, timeout=60)
    for table in ("versions", "latest", "passed"):
        ends.source.execute(
            f"insert into {table} select g, now() - interval '20 days' * (g % 2), 'v'"
            " from generate_series(1, 200) g;"
            f"update {table} set v = 'w' where id <= 100; delete from {table} where id > 150"
        )
    ends.tick()
    mark = tmp_path / "mark"
    armed = {**os.environ, "LONDISTE_CRASH": point, "LONDISTE_CRASH_MARK": str(mark)}
    done = subprocess.run(
        command, env=armed, capture_output=True, text=True, timeout=400, check=False
    )
    assert mark.exists(), done.stderr
    lost = 0 if engine == "spark" else 6
    assert done.returncode == (-signal.SIGKILL if point in PROGRAM else lost), done.stderr
    if point in PROGRAM and PROGRAM.index(point) < PROGRAM.index("consumer.after-commit"):
        # Nothing of it is seen: no row, no partition, and the old partition is there.
        assert ends.rows("versions") == ends.rows("latest") == {}
        assert ends.target.value("select to_regclass('latest_2001_02') is not null")
    again = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert again.returncode == 0, again.stderr
    kept = ends.target.execute("select id, v from versions order by id, v")
    assert kept == sorted(
        [*((id, "v") for id in range(1, 201)), *((id, "w") for id in range(1, 101))]
    )
    latest = ends.target.execute("select id, v, at from latest order by id")
    assert latest == ends.source.execute("select id, v, at from latest order by id")
    assert ends.rows("passed") == {}
    # Partitions are named as the file says, and what is older than the retention is gone.
    months = ends.source.execute(
        "select distinct to_char(at at time zone 'UTC', 'YYYYMM') from versions"
    )
    parts = {part for part, _, _ in ends.rows("versions")}
    assert parts == {f"versions_of_{month}" for (month,) in months}
    assert not ends.target.value("select to_regclass('latest_2001_02') is not null")
    assert ends.ways() == {"job"}
    left = ends.target.execute("select relname from pg_class where relname ~ '^staged_'")
    assert left == []
