"""A killed copy is continued on another machine, much later."""

from __future__ import annotations

import re
import signal

import pytest

from tests.fixtures.cluster import Server
from tests.support.scenarios import oracles, writers
from tests.support.scenarios.harness import QUEUE, Cascade, Node

TABLES = (*writers.KEYED, "scenario.bulk")


def _marks(leaf: Node) -> int:
    """Chunks of the big table that are done."""
    return int(
        leaf.database.value(
            "select count(*) from londiste.copy_chunk where table_name = 'scenario.bulk'"
        )
    )


def _throttle(leaf: Node, rate: int | None) -> None:
    leaf.database.execute("select londiste.copy_throttle(%s, %s, null)", QUEUE, rate)


@pytest.mark.slow
def test_a_killed_copy_goes_on_from_another_machine_after_a_long_time(
    cascade: Cascade, cluster16: Server
) -> None:
    cascade.settings["copy_chunk_bytes"] = str(256 * 1024)
    cascade.settings["resumable_copy_min_bytes"] = "0"
    root = cascade.root(
        on=cluster16, schema=writers.SCHEMA + writers.DATA + writers.BULK + writers.BULK_ROWS
    )
    leaf = cascade.leaf(provider=root, schema=writers.SCHEMA + writers.BULK)
    cascade.start_ticker()
    _throttle(leaf, 500_000)
    worker = cascade.start_worker(leaf)
    with writers.quick_and_slow(root.database) as (writer, slow):
        cascade.add_tables(*TABLES)
        before = int(cascade.wait(lambda: _marks(leaf) > 2 and _marks(leaf), "the first chunks"))
        worker.kill()
        assert worker.wait() == -signal.SIGKILL
        # Everything moves on: rows of all ranges change, tables of the queue rotate.
        for number in range(4):
            root.database.execute(
                f"update scenario.bulk set id = id + 1000000 where id % 97 = {number};"
                f" delete from scenario.bulk where id % 101 = {number};"
                f" update scenario.bulk set filler = '{number}' where id % 89 = {number}"
            )
            writer.wait(30)
        _throttle(leaf, None)
        elsewhere = cascade.directory / "elsewhere"
        elsewhere.mkdir()
        config = elsewhere / "other.toml"
        config.write_text(
            leaf.config.read_text(encoding="utf-8") + f'pidfile = "{elsewhere}/worker.pid"\n',
            encoding="utf-8",
        )
        config.chmod(0o600)
        cascade.processes.start("elsewhere", cascade.command(config, "worker"), {})
        cascade.wait_sync(leaf)
        writer.wait(30)
        writer.stop()
        slow.stop()
    cascade.wait_root(leaf)
    oracles.assert_same_rows(root.database, leaf.database, TABLES)
    assert cascade.compare(leaf)["equal"]
    said = cascade.processes.everything_said()
    found = re.search(r"scenario\.bulk: copy \d+ resumes, (\d+) of (\d+) chunks are done", said)
    assert found is not None, said[-3000:]
    assert before <= int(found[1]) < int(found[2])
