"""A consumer with a contract: its databases, its files, its program, and what it has done."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import londiste
import londiste.db.connection
from londiste import Consumer, Delivery
from londiste.pgq import queues
from tests.fixtures.cluster import Database
from tests.support.programs.consumer_program import consumer

QUEUE = "q"
ORDINARY = ("a", "b", "c", "d", "e")


@dataclass
class Scene:
    """Databases and files of one case; ``target`` has the effects."""

    source: Database
    target: Database
    directory: Path
    delivery: Delivery

    @property
    def kind(self) -> type[Consumer]:
        return consumer(self.delivery, self.directory / "side_effects")

    @property
    def given(self) -> dict[str, str]:
        given = {"db": self.source.dsn}
        if self.target is not self.source:
            given["target_db"] = self.target.dsn
        if self.delivery is Delivery.LOCAL_FILE:
            given["local_tracking_file"] = str(self.directory / "position")
        return given

    def program(self, point: str, number: str = "KILL") -> tuple[list[str], dict[str, str]]:
        """Command and environment of the consumer's program, which gets a signal at a point."""
        argv = [sys.executable, "-m", "tests.support.programs.consumer_program", "--once"]
        for key, value in self.given.items():
            argv += ["--set", f"{key}={value}"]
        return argv, {
            "DELIVERY": self.delivery.name,
            "SIDE_EFFECTS": str(self.directory / "side_effects"),
            "LONDISTE_CRASH": point,
            "LONDISTE_CRASH_SIGNAL": number,
        }

    def tick(self) -> None:
        with londiste.db.connection.session(self.source.dsn, autocommit=True) as conn:
            queues.force_tick(conn, QUEUE)
            assert queues.ticker(conn, QUEUE) is not None

    def take_all(self) -> None:
        """What a consumer that starts again does, with the repetitions that are due."""
        self.kind(**self.given).run_once()
        self.source.execute("select pgq.maint_retry_events()")
        self.tick()
        self.kind(**self.given).run_once()

    def rows(self) -> Counter[str]:
        return Counter(data for (data,) in self.target.execute("select data from effects"))

    def lines(self) -> Counter[str]:
        path = self.directory / "side_effects"
        text = path.read_text() if path.exists() else ""
        return Counter(line.split()[0] for line in text.splitlines())


def scene(source: Database, target: Database | None, directory: Path, delivery: Delivery) -> Scene:
    """A registered consumer with two batches in front of it."""
    result = Scene(source, target or source, directory, delivery)
    conn = source.connect()
    queues.create_queue(conn, QUEUE)
    result.target.execute("create table effects (data text, attempt int)")
    assert result.kind(**result.given).register()
    with londiste.Producer(source.dsn, QUEUE) as producer:
        producer.send_many([("t", text) for text in ("a", "b", "again", "dead", "c")])
        result.tick()
        producer.send_many([("t", text) for text in ("d", "e")])
        result.tick()
    return result
