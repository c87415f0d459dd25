"""A cascaded consumer that runs follows the cascade: paused, moved, switched over, taken over."""

from __future__ import annotations

import sys

import psycopg

from londiste.cascade.model import NodeType
from tests.fixtures.line import QUEUE, Command, Line, LineNode
from tests.scenarios.cascade.test_resurrect import cut_off

SCHEMA = "create table public.t (id int primary key)"


def test_a_consumer_goes_on_where_it_stood_whatever_becomes_of_the_nodes(
    line: Line, command: Command
) -> None:
    n1 = line.node("root", NodeType.ROOT, schema=SCHEMA)
    n2 = line.node("n2", NodeType.BRANCH, n1, schema=SCHEMA)
    n3 = line.node("n3", NodeType.LEAF, n1, schema=SCHEMA)
    for node in (n1, n2, n3):
        line.add(node, "t")
        line.start(node)
    n3.database.execute("create table effects (id int)")
    config = line.directory / "storing.toml"
    config.write_text(
        f'[londiste]\ndb = "{n3.database.dsn}"\nqueue_name = "{QUEUE}"\nloop_delay = 0.1\n'
        'job_name = "storing"\nexception_sleep = 0.3\n'
    )
    argv = [sys.executable, "-m", "tests.support.programs.storing_consumer", "-c", str(config)]
    assert line.processes.run([*argv, "--register"], {}, seconds=60).code == 0
    consumer = line.processes.start("storing", argv, {})
    written = 0

    def write(root: LineNode) -> None:
        nonlocal written
        written += 1
        root.database.execute("insert into t values (%s)", written)
        line.tick(root)

    def effects() -> list[int]:
        return [n for (n,) in n3.database.execute("select id from effects order by id")]

    def arrived() -> None:
        line.wait(lambda: effects() == [*range(1, written + 1)], f"effects up to {written}")

    def provider() -> str:
        state = "select provider_node from pgq_node.local_state where consumer_name = 'storing'"
        return str(n3.database.value(state))

    def registered(node: LineNode) -> int:
        found = "select count(*) from pgq.get_consumer_info(%s, 'storing')"
        return int(node.database.value(found, QUEUE))

    write(n1)
    arrived()
    on_n3 = ("--node", "n3", "--consumer", "storing")
    assert command(n1, "pause", *on_n3).code == 0
    write(n1)
    line.wait_position(n3, line.tick(n1))
    assert effects() == [1]
    assert command(n1, "resume", *on_n3).code == 0
    arrived()
    # Its provider becomes a branch, and it does not notice.
    assert command(n1, "switchover", "--to", "n2").code == 0
    write(n2)
    arrived()
    assert provider() == "root"
    assert command(n1, "change-provider", *on_n3, "--provider", "n3").code == 3
    assert command(n3, "change-provider", "--consumer", "n3_worker", "--provider", "n2").code == 2
    moved = command(n1, "change-provider", *on_n3, "--provider", "n2")
    assert moved.code == 0 and "did not answer" not in moved.err
    assert (registered(n1), registered(n2), provider()) == (0, 1, "n2")
    assert "nothing to do" in command(n1, "change-provider", *on_n3, "--provider", "n2").err
    write(n2)
    arrived()
    # Killed, moved while it is away, begun again; there and back.
    consumer.kill()
    write(n2)
    away = command(n1, "change-provider", *on_n3, "--provider", "root", "--timeout", "0")
    assert away.code == 0 and "did not answer" in away.err
    line.processes.start("storing", argv, {})
    arrived()
    assert command(n3, "change-provider", "--consumer", "storing", "--provider", "n2").code == 0
    # The root that it reads from is lost.
    with cut_off(n2.database):
        taken = command(n1, "takeover", "n2", "--failover")
        assert taken.code == 0, taken
        assert provider() == "root"
        write(n1)
        arrived()
        write(n1)
        arrived()
    with psycopg.connect(n3.database.dsn) as conn:
        assert conn.execute("select count(*) from pgq_node.operation").fetchone() == (0,)
