"""Queues of databases with the encoding SQL_ASCII, which stores any bytes."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from londiste import Consumer, Context, Event, Producer
from londiste.db import connection
from londiste.errors import EventError
from londiste.install.apply import install
from londiste.pgq import batches, queues
from tests.fixtures.cluster import Database, Server


@pytest.fixture
def db(cluster: Server) -> Iterator[Database]:
    name = "ld_sql_ascii"
    with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
        conn.execute(f"drop database if exists {name}".encode())
        conn.execute(
            f"create database {name} encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C'"
            " template template0".encode()
        )
    with connection.session(cluster.dsn(name), autocommit=True) as conn:
        install(conn, ["pgq"])
        queues.create_queue(conn, "q")
        batches.register_consumer(conn, "q", "c")
    database = Database(cluster, name)
    yield database
    database.drop()


class Reading(Consumer):
    queue = "q"
    name = "c"

    def startup(self) -> None:
        self.seen: list[str | None] = []

    def process_event(self, event: Event, ctx: Context) -> None:
        self.seen.append(event.data)


@pytest.mark.parametrize("filtered", [False, True])
def test_an_event_that_is_not_utf8_is_named_with_the_way_out(db: Database, filtered: bool) -> None:
    with psycopg.connect(db.dsn, client_encoding="sql_ascii", autocommit=True) as conn:
        for data in (b"one", b"caf\xe9 secret", "caf\u00e9".encode()):
            conn.execute(b"select pgq.insert_event('q', 't', '" + data + b"')")
    queues.create_tick(db.connect(), "q")
    kind = type("Reading", (Reading,), {"where": "ev_type = 't'"}) if filtered else Reading
    with pytest.raises(EventError, match="event 2: its text is not UTF-8") as caught:
        kind(db.dsn).run_once()
    assert caught.value.event_id == 2
    assert caught.value.hint and "--set 'consumer_filter=ev_id <> 2'" in caught.value.hint
    assert "secret" not in str(caught.value)
    consumer = kind(db.dsn, consumer_filter="ev_id <> 2")
    assert consumer.run_once() == 1
    assert consumer.seen == ["one", "caf\u00e9"]


def test_a_session_without_conversion_sends_by_copy(db: Database) -> None:
    with psycopg.connect(db.dsn, client_encoding="sql_ascii") as conn:
        assert Producer(conn, "q").send_many([("t", "caf\u00e9")], copy=True) == 1
    assert db.execute("select ev_data from pgq.event_template") == [("caf\u00e9".encode(),)]
