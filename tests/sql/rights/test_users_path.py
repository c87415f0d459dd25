"""Sessions with their user's search_path: our statements use nothing of a schema of others.

Statements of the user run in these sessions, so that their path may lead into a schema where other
roles create objects: ``public`` up to PostgreSQL 14.  The server prefers an operator of exactly the
types of its operands, in whichever schema of the path, to one that needs a cast.  So here an
operator of each such pair of types is created, and fails when it is used.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from londiste import Delivery, Event
from londiste.errors import EventError
from londiste.pgq import queues
from londiste.shell.session import Session
from londiste.shell.statements import execute
from tests.fixtures.cascade import CommandLine, Nodes
from tests.fixtures.cluster import Database
from tests.support.consumer_steps import ALL, effects, make, send
from tests.support.suite.decoys import DECOYS

STATEMENTS = [
    "show version",
    "create queue one",
    "alter queue one set ticker_max_lag = '1 s'",
    "connect queue=q",
    "show queue",
    "show queue q",
    "register consumer c",
    "register subconsumer w for d",
    "show consumer",
    "show consumer c",
    "unregister consumer c",
    "unregister subconsumer * for d close batch",
    "drop queue one force",
    "install pgq",
    "install londiste",
    "help",
]


@pytest.fixture
def decoyed(pgq_db: Database) -> Database:
    pgq_db.execute(DECOYS)
    pgq_db.execute("create table effects (ev_id int8, data text)")
    with closing(pgq_db.connect()) as conn:
        queues.create_queue(conn, "q")
    return pgq_db


def test_a_decoy_is_used_where_the_types_are_not_exact(decoyed: Database) -> None:
    with closing(decoyed.connect()) as conn, pytest.raises(psycopg.Error, match="taken over"):
        conn.execute("set search_path = public")
        conn.execute("select from pg_depend where classid = 'pg_class'::regclass limit 1")


def test_statements_of_the_queue_shell(decoyed: Database, database: Database) -> None:
    # With the captures of a root, and where nothing is installed.
    with closing(Session(decoyed.dsn)) as session:
        for statement in STATEMENTS:
            execute(session, statement)
        assert execute(session, "show search_path").rows == [['"$user", public']]
        execute(session, "set search_path = mine, public")
        execute(session, "begin")
        execute(session, "create queue later")
        assert execute(session, "show search_path").rows == [["mine, public"]]
        execute(session, "rollback")
        assert execute(session, "show search_path").rows == [["mine, public"]]
    database.execute(DECOYS)
    with closing(Session(database.dsn)) as session:
        execute(session, "show version")
        execute(session, "install pgq")
        execute(session, "install londiste")


@pytest.mark.parametrize("delivery", ALL)
def test_a_consumer(decoyed: Database, tmp_path: Path, delivery: Delivery) -> None:
    attempts = {"max_attempts": 1} if delivery.may_retry else {}
    consumer = make(decoyed, delivery, tmp_path, **attempts)
    consumer.register()
    send(decoyed, "a", "bad", "c")

    def fail(event: Event) -> None:
        if event.data == "bad":
            raise ZeroDivisionError

    consumer.fail = fail
    if not attempts:
        with pytest.raises(EventError, match="ZeroDivisionError"):
            consumer.run_once()
        consumer.fail = None
    consumer.run_once()
    send(decoyed, "d")
    consumer.run_once()
    assert "d" in effects(decoyed)
    consumer.unregister()


def test_scripts(nodes_of: Nodes, londiste: CommandLine) -> None:
    root = nodes_of.root()
    root.db.execute("create table t (id int4 primary key, v text)")
    assert londiste(root.db, "add-table", "t").code == 0
    root.db.execute(DECOYS)
    for number, text in enumerate(
        (
            "alter table t add column n int4; update t set v = v || '!'; create index on t (n)",
            "create index concurrently later on t (v)",
            "nonsense",
            "create table u (id int4)",
        )
    ):
        done = londiste(root.db, "execute", "--name", f"s{number}", "--sql", text)
        assert "taken over" not in done.err
        assert (done.code == 0) == (text != "nonsense"), done.err
