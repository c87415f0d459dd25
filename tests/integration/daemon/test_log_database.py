"""Logging to a database: complete while it answers, never blocking when it does not."""

from __future__ import annotations

import io
import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from londiste.daemon import logcontext
from londiste.daemon.logdatabase import Database as Handler
from tests.fixtures.cluster import Database
from tests.support.waiting import wait_for

SCHEMA = """
create schema "Log it";
create table "Log it".line (nr serial, service text, level text, message text);
create function "Log it"."add; --"(text, text, text) returns void language sql as
$$ insert into "Log it".line (service, level, message) values ($1, $2, $3) $$;
"""
FUNCTION = "Log it.add; --"

log = logging.getLogger("test.of.log.database")


@pytest.fixture
def attached() -> Iterator[Callable[[Handler], Handler]]:
    handlers: list[Handler] = []

    def attach(handler: Handler) -> Handler:
        handler.addFilter(logcontext.Fields())
        log.addHandler(handler)
        handlers.append(handler)
        return handler

    log.setLevel(logging.DEBUG)
    yield attach
    for handler in handlers:
        log.removeHandler(handler)
        handler.close()
    # A thread that outlives the grace of its handler would print into the output of other tests.
    threads_end()


def threads_end() -> None:
    for thread in threading.enumerate():
        if thread.name == "log":
            thread.join(30)
            assert not thread.is_alive()


def said(database: Database) -> list[tuple[str, ...]]:
    return database.execute('select service, level, message from "Log it".line order by nr')


def test_every_line_arrives_in_order_with_service_and_level(
    database: Database, attached: Callable[[Handler], Handler]
) -> None:
    database.execute(SCHEMA)
    handler = attached(Handler(database.dsn, FUNCTION))
    for number in range(100):
        log.info("message %d", number)
    with logcontext.bound(job="a job"):
        log.warning("zero \0 and \ud800 and ' and \n newline")
    handler.close()
    rows = said(database)
    assert rows[:100] == [("londiste", "INFO", f"message {n}") for n in range(100)]
    assert rows[100:] == [("a job", "WARNING", "zero \\x00 and \\ud800 and ' and \n newline")]


def test_lines_of_statistics_are_sent_as_one_sum(
    database: Database, attached: Callable[[Handler], Handler]
) -> None:
    database.execute(SCHEMA)
    handler = attached(Handler(database.dsn, FUNCTION, service="svc"))
    for _ in range(5):
        log.info("{count: 2}", extra={"statistics": {"count": 2, "duration": 0.5}})
    handler.close()
    assert said(database) == [("svc", "INFO", "{count: 10, duration: 2.5}")]


def test_a_database_that_never_answers_costs_lines_and_no_time(
    attached: Callable[[Handler], Handler], capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        handler = attached(Handler(f"host=127.0.0.1 port={port} dbname=x user=x", lines=10))
        log.info("the first")
        # Connected, it waits for an answer that will not come.
        connection, _ = deaf.accept()
        with connection:
            for number in range(100):
                log.info("%d", number)
            assert handler.lost == 90
            handler.close()
    # It says that the connection broke, and may not while the output is read.
    threads_end()
    # ten that waited, the one at hand
    assert f"log database x@127.0.0.1:{port}: 101 lines were lost" in capfd.readouterr().err


def test_after_an_outage_the_waiting_lines_come_and_the_lost_ones_are_counted(
    database: Database,
    attached: Callable[[Handler], Handler],
    capfd: pytest.CaptureFixture[str],
) -> None:
    database.execute(SCHEMA)
    database.execute('alter schema "Log it" rename to away')
    handler = attached(Handler(database.dsn, FUNCTION))
    log.info("lost")
    wait_for(lambda: handler.lost == 1, what="the line that the database refused")
    database.execute('alter schema away rename to "Log it"')
    log.info("there")
    handler.close()
    assert said(database) == [
        ("londiste", "INFO", "there"),
        ("londiste", "WARNING", "1 lines of the log were lost"),
    ]
    assert capfd.readouterr().err.count("log database") == 1


def test_a_killed_session_is_opened_again_and_no_line_is_lost(
    database: Database, attached: Callable[[Handler], Handler]
) -> None:
    database.execute(SCHEMA)
    handler = attached(Handler(database.dsn, FUNCTION))
    log.info("before")
    wait_for(lambda: said(database), what="the first line")
    database.execute(
        "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
        " where application_name = 'londiste log' and datname = current_database()"
    )
    log.info("after")
    handler.close()
    assert [message for _, _, message in said(database)] == ["before", "after"]


def test_the_password_of_the_log_database_is_in_no_message(
    attached: Callable[[Handler], Handler], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    dsn = f"postgresql://user:s3cr3t@127.0.0.1:{port}/x?connect_timeout=5"
    # What capfd has may not be read while a thread writes.
    err = io.StringIO()
    monkeypatch.setattr(sys, "stderr", err)
    handler = attached(Handler(dsn))
    log.info("x")
    wait_for(lambda: "log database" in err.getvalue(), what="the trouble on stderr")
    handler.close()
    said = err.getvalue()
    assert "1 lines were lost" in said
    assert "s3cr3t" not in said + repr(handler)


def test_logging_from_many_threads_loses_nothing(
    database: Database, attached: Callable[[Handler], Handler]
) -> None:
    database.execute(SCHEMA)
    handler = attached(Handler(database.dsn, FUNCTION))

    def work(number: int) -> None:
        with logcontext.bound(job=f"job {number}"):
            for _ in range(50):
                log.info("x")

    threads = [threading.Thread(target=work, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handler.close()
    counts = database.execute('select service, count(*) from "Log it".line group by 1 order by 1')
    assert counts == [(f"job {number}", 50) for number in range(8)]
