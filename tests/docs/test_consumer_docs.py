"""The programs in the chapters about consumers run and do what the chapters describe."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import londiste
from londiste import Consumer, Delivery
from londiste.daemon import crash
from londiste.pgq import queues
from tests.fixtures.cascade import QUEUE, Nodes
from tests.fixtures.cluster import Database

DOCS = Path(__file__).parents[2] / "docs"
CHAPTERS = sorted((DOCS / "consumers").glob("*.md"))
HOWTO = DOCS / "howto/write-a-consumer.md"

TABLES = """
    create table greetings (mail text);
    create table totals (signups int8); insert into totals values (0);
    create table rates (page text, n int); insert into rates values ('a', 0), ('b', 0);
    create table cache (page text primary key, body text);
    create table accounts (name text, balance numeric); insert into accounts values ('x', 0);
    create table orders (data text);
    create table sent (mail text);
    create table pictures (id text, data text, small text);
    insert into pictures (id, data) values ('1', 'abc'), ('2', 'def');
    create function shrink(text) returns text language sql as 'select left($1, 1)';
"""


def programs(page: Path) -> list[str]:
    """The Python programs of a page."""
    return re.findall(r"(?ms)^```python\n(.*?)^```", page.read_text(encoding="utf-8"))


@dataclass
class Shop:
    """A database with the tables of the examples."""

    db: Database
    directory: Path
    called: list[Any] = field(default_factory=list)

    def load(self, code: str) -> dict[str, Any]:
        """Runs a program without its last line; what it has defined."""
        code = code.replace("/var/archive", str(self.directory))
        names: dict[str, Any] = {
            "__name__": "example",
            "send": lambda *words: self.called.append(words),
            "send_mail": lambda *words: self.called.append(words),
        }
        exec(compile(code, "example", "exec"), names)
        return names

    def consumer(self, code: str, **given: Any) -> Consumer:
        """The consumer that a program defines, registered."""
        (kind,) = {
            value
            for value in self.load(code).values()
            if isinstance(value, type) and issubclass(value, Consumer)
        }
        if kind.delivery is Delivery.LOCAL_FILE:
            given["local_tracking_file"] = str(self.directory / "position")
        queues.create_queue(self.db.connect(), kind.queue)
        consumer = kind(self.db.dsn, **given)
        assert consumer.register()
        return consumer

    def give(self, consumer: Consumer, *events: tuple[str | None, ...]) -> None:
        """Sends events in one batch and lets the consumer work."""
        with londiste.Producer(self.db.dsn, consumer.queue) as producer:
            producer.send_many(events)
        self.tick(consumer.queue)
        assert consumer.run_once() == 1

    def tick(self, queue: str) -> None:
        conn = self.db.connect()
        queues.force_tick(conn, queue)
        queues.ticker(conn, queue)


@pytest.fixture
def shop(pgq_db: Database, tmp_path: Path) -> Shop:
    pgq_db.execute(TABLES)
    return Shop(pgq_db, tmp_path)


def chapter(name: str) -> str:
    (code,) = programs(DOCS / "consumers" / f"{name}.md")
    return code


def test_at_most_once(shop: Shop) -> None:
    shop.give(shop.consumer(chapter("at-most-once")), ("t", "a"), ("t", "a"), ("t", "b"))
    assert shop.db.execute("select page, n from rates order by 1") == [("a", 2), ("b", 1)]


def test_at_least_once(shop: Shop) -> None:
    consumer = shop.consumer(chapter("at-least-once"))
    shop.give(consumer, ("t", "1", "page"), ("t", "2", "page"))
    assert shop.db.execute("select * from cache") == [("page", "2")]


def test_exactly_once_here(shop: Shop) -> None:
    shop.give(shop.consumer(chapter("exactly-once-here")), ("t", "5", "x"), ("t", "-2", "x"))
    assert shop.db.value("select balance from accounts") == 3


def test_exactly_once_elsewhere(shop: Shop, new_database: Callable[..., Database]) -> None:
    target = new_database(pgq=True)
    target.execute(TABLES)
    consumer = shop.consumer(chapter("exactly-once-elsewhere"), target_db=target.dsn)
    shop.give(consumer, ("t", "one"), ("t", "two"))
    assert target.execute("select data from orders") == [("one",), ("two",)]
    assert shop.db.execute("select data from orders") == []


def test_once_per_event(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.give(shop.consumer(chapter("once-per-event")), ("t", "hello", "anna"))
    assert capsys.readouterr().out == "to anna: hello\n"
    assert shop.db.execute("select mail from sent") == [("anna",)]


def test_local_file(shop: Shop) -> None:
    shop.give(shop.consumer(chapter("local-file")), ("t", "one"), ("t", "two"))
    (file,) = shop.directory.glob("*.txt")
    assert file.read_text() == "one\ntwo\n"


def test_cascade_node(nodes_of: Nodes, tmp_path: Path) -> None:
    root = nodes_of.root()
    root.db.execute("create table to_index (change text)")
    names = Shop(root.db, tmp_path).load(chapter("cascade-node"))
    consumer = names["Search"](root.dsn, queue_name=QUEUE)
    assert consumer.register()
    with londiste.Producer(root.dsn, QUEUE) as producer:
        producer.send_many([("I", "a", "public.products"), ("I", "b", "public.other")])
    root.tick()
    assert consumer.run_once() == 1
    assert root.db.execute("select change from to_index") == [("a",)]


def test_cooperative(shop: Shop) -> None:
    consumer = shop.consumer(chapter("cooperative"), subconsumer_name="one")
    shop.give(consumer, ("t", "1"), ("t", "2"))
    assert shop.db.execute("select small from pictures order by id") == [("a",), ("d",)]


def test_the_first_two_programs_do_the_same(shop: Shop) -> None:
    one, two = programs(HOWTO)[:2]
    shop.give(shop.consumer(one), ("new", "anna"))
    shop.db.execute("select pgq.unregister_consumer('signups', 'greeter')")
    shop.give(shop.consumer(two), ("new", "ben"))
    assert shop.db.execute("select mail from greetings") == [("anna",), ("ben",)]


def test_the_programs_of_the_howto(shop: Shop) -> None:
    _, _, counter, large, mailer, sending, testing = programs(HOWTO)
    shop.give(shop.consumer(counter), ("new", "a"), ("new", "b"))
    assert shop.db.value("select signups from totals") == 2

    seen: list[str | None] = []
    consumer = shop.consumer(large)
    type(consumer).process_event = lambda self, event, ctx: seen.append(event.data)  # type: ignore[method-assign]
    shop.give(consumer, ("t", "small", None, "7"), ("t", "large", None, "7000"))
    assert seen == ["large"]

    shop.give(shop.consumer(mailer, smtp_host="mail.example"), ("t", "hello"))
    assert shop.called == [("mail.example", "hello")]

    before = queues.event_count(shop.db.connect(), "signups")
    shop.load(sending.replace('"dbname=shop"', repr(shop.db.dsn)))
    assert queues.event_count(shop.db.connect(), "signups") == before + 4

    shop.tick("signups")
    names = shop.load(programs(HOWTO)[0] + testing)
    names["tick"] = lambda dsn, queue: shop.tick(queue)
    names["mails"] = lambda dsn: [m for (m,) in shop.db.execute("select mail from greetings")]
    names["test_a_signup_is_greeted"](shop.db.dsn)


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)
def test_a_chapter_says_what_a_crash_does_at_points_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"`consumer\.([a-z-]+)`", text):
        assert f"consumer.{name}" in crash.POINTS, name
    assert programs(page)
    assert "**When to use it.**" in text and "**Guarantee" in text
