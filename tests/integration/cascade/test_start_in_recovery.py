"""A daemon waits for its own server, which is down or recovers at its start, as it does later."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg

from londiste.cascade.model import NodeType
from londiste.embedded.account import server_account
from londiste.embedded.postgres import Cluster
from tests.fixtures.line import Line
from tests.support.waiting import wait_for

SCHEMA = "create table a (id int primary key)"


#: Of a server whose recovery lasts until there is a file ``go`` in its directory, and that lets
#: nobody in before its end, as after a crash.
HELD = {
    "restore_command": "while [ ! -f go ]; do sleep 0.1; done; false",
    "hot_standby": "off",
}


def recovering(server: Cluster) -> threading.Thread:
    """Starts a server, which is down, that recovers until it may go on."""
    signal = server.data / "recovery.signal"
    signal.touch()
    server_account().own(signal, 0o600)
    starting = threading.Thread(target=server.up)
    starting.start()
    wait_for(lambda: "the database system is" in refusal(server), what="a server that recovers")
    return starting


def refusal(server: Cluster) -> str:
    """What the server says to who connects."""
    try:
        psycopg.connect(server.dsn("postgres")).close()
    except psycopg.OperationalError as error:
        return str(error)
    return ""


def test_a_worker_waits_while_its_server_is_down_and_recovers(
    new_cluster: Callable[..., Cluster], line: Line
) -> None:
    server = new_cluster("leaf", settings=HELD)
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA, on=server)
    line.add(root, "public.a")
    line.tick()
    line.once(leaf)
    line.add(leaf, "public.a")
    server.stop("immediate")
    worker = line.start(leaf)
    line.wait(lambda: "connection to server " in worker.said(), "a server that is down")
    starting = recovering(server)
    try:
        line.wait(lambda: "the database system is " in worker.said(), "a server that recovers")
        assert worker.running()
        again = line.here(leaf, "worker", "--once")
        assert again.code == 6 and "hint: wait until its recovery has finished" in again.err, str(
            again
        )
    finally:
        (server.data / "go").touch()
        starting.join()
    root.database.execute("insert into a values (1)")
    line.wait_position(leaf, line.tick())
    assert leaf.database.execute("select * from a") == [(1,)]
    # Logged after the commit.
    line.wait(lambda: "recovered after" in worker.said(), "the line of the worker")
    assert worker.running()
