"""Consumers move to another database by the how-to page, with producers that never stop."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import londiste
from londiste.pgq import queues
from tests.fixtures.cluster import Database, Server
from tests.support.scenarios.processes import Process, Processes
from tests.support.waiting import wait_for

PAGE = Path(__file__).parents[3] / "docs/howto/move-consumers.md"
CONSUMERS = ("billing", "mail")
LISTS = "create table sent (token text); create table seen (consumer text, token text);"


def steps() -> list[str]:
    """The commands of the page, one text for each step that has some."""
    text = PAGE.read_text(encoding="utf-8")
    return [
        "\n".join(line.strip() for line in block.splitlines())
        for block in re.findall(r"```\n(.*?)```", text, re.S)
    ]


class Shop(threading.Thread):
    """Sends tokens until it is stopped; notes them in the transactions that send them."""

    def __init__(self, database: Database, name: str) -> None:
        super().__init__(daemon=True, name=name)
        self.database = database
        self.count = 0
        self._stop_now = threading.Event()

    def run(self) -> None:
        with self.database.connect(autocommit=False) as conn:
            producer = londiste.Producer(conn, "orders")
            while not self._stop_now.wait(0.005):
                token = f"{self.name}/{self.count}"
                conn.execute("insert into public.sent values (%s)", [token])
                producer.send("token", token)
                conn.commit()
                self.count += 1

    def end(self) -> None:
        self._stop_now.set()
        self.join(30)
        assert not self.is_alive()

    def wait(self, tokens: int) -> None:
        """Waits until it has sent so many more."""
        target = self.count + tokens
        wait_for(lambda: self.count >= target, what=f"{tokens} tokens of {self.name}")


def run_consumers(processes: Processes, database: Database, where: str) -> list[Process]:
    return [
        processes.start(
            f"{name}-{where}",
            [
                *(
                    sys.executable,
                    "-m",
                    "tests.support.programs.moved_consumer",
                    "--db",
                    database.dsn,
                ),
                *("--set", f"consumer_name={name}", "--set", "poll_interval=0.05"),
            ],
            {"PYTHONPATH": str(PAGE.parents[2])},
        )
        for name in CONSUMERS
    ]


def impatient(database: Database) -> None:
    """Nobody shall wait for a tick as long as by default."""
    with database.connect() as conn:
        queues.set_queue_config(conn, "orders", "ticker_max_lag", "50 milliseconds")


def seen(*databases: Database) -> dict[str, Counter[str]]:
    """What each consumer has listed, in any of the databases."""
    lists: dict[str, Counter[str]] = {name: Counter() for name in CONSUMERS}
    for database in databases:
        for name, token in database.execute("select consumer, token from seen"):
            lists[name][token] += 1
    return lists


@pytest.mark.slow
def test_nothing_is_lost_and_nothing_seen_twice(
    processes: Processes, new_database: Callable[..., Database], cluster16: Server, tmp_path: Path
) -> None:
    old, new = new_database(on=cluster16, pgq=True), new_database()
    for database in (old, new):
        database.execute(LISTS)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LONDISTE"))}
    environment |= {
        "OLD": old.dsn,
        "NEW": new.dsn,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(PAGE.parents[2]),
        "LONDISTE_POLL_INTERVAL": "0.1",
    }

    def page(text: str) -> None:
        done = subprocess.run(
            ["bash", "-euc", text],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=(tmp_path / "page.log").open("a"),
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, text + (tmp_path / "page.log").read_text()

    _, make, count, pause, replace, unregister, delayed, close, drain, drop = steps()
    with old.connect() as conn:
        queues.create_queue(conn, "orders")
    impatient(old)
    page('londiste queue register orders billing mail --db "$OLD"')
    ticker = [sys.executable, "-m", "londiste", "--set", "ticker_period=0.05", "ticker"]
    processes.start("ticker", [*ticker, "--db", old.dsn])
    shops = [Shop(old, "first"), Shop(old, "second")]
    consumers = run_consumers(processes, old, "old")
    for shop in shops:
        shop.start()
        shop.wait(50)

    page(make)
    impatient(new)
    page(count)
    page(pause)
    at_one_tick = (
        "select count(distinct last_tick) = 1 and min(last_tick) = (select max(tick_id) from"
        " pgq.tick) and max(current_batch) is null from pgq.get_consumer_info('orders')"
    )
    wait_for(lambda: old.value(at_one_tick), what="the consumers at the last tick")
    for consumer in consumers:
        consumer.stop()
    page(replace)
    shops[0].wait(50)
    # The mover is killed in the middle, and started again by the same command.
    os.kill(int((tmp_path / "mover.pid").read_text()), signal.SIGKILL)
    shops[0].wait(20)
    page(replace.splitlines()[-2] + "\n" + replace.splitlines()[-1])
    consumers = run_consumers(processes, new, "new")
    page(unregister)

    for number, shop in enumerate(shops):
        shop.wait(30)
        shop.end()
        shops[number] = Shop(new, f"{shop.name}-moved")
        shops[number].start()
    for shop in shops:
        shop.wait(30)
    page("\n".join((delayed, close, drain, drop)))
    assert "consumer mover is registered, with 0 events pending: lost" in (
        tmp_path / "page.log"
    ).read_text(encoding="utf-8")
    assert old.execute("select * from pgq.queue") == []
    for shop in shops:
        shop.end()

    sent = Counter(
        token for database in (old, new) for (token,) in database.execute("select token from sent")
    )
    assert set(sent.values()) == {1}
    wait_for(
        lambda: all(sum(list_.values()) >= len(sent) for list_ in seen(old, new).values()),
        what="the consumers on the new database",
    )
    for consumer in consumers:
        consumer.stop()
    page('londiste --set pidfile=ticker.pid ticker --db "$NEW" -s')
    for name, list_ in seen(old, new).items():
        assert list_ == sent, name
    for database in (old, new):
        assert all(sum(list_.values()) for list_ in seen(database).values()), "a side saw nothing"
