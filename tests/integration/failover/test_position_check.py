"""A worker continues only at the queue to which its position belongs."""

from __future__ import annotations

import itertools
import shlex
import signal
from collections.abc import Callable

import psycopg

from londiste.cascade.model import NodeType
from londiste.embedded.postgres import Cluster
from londiste.pgq import rebase
from tests.fixtures.cascade import closed
from tests.fixtures.line import QUEUE, Line, LineNode
from tests.support.servers.kept_nodes import kept_nodes

CONTENTS = "select id from a order by id"


@kept_nodes
def pair(line: Line) -> tuple[LineNode, LineNode]:
    """A root and a leaf that has taken all there is."""
    root = line.node("root", NodeType.ROOT, schema="create table a (id int primary key)")
    leaf = line.node("leaf", NodeType.LEAF, root, schema="create table a (id int primary key)")
    line.add(root, "public.a")
    line.tick()
    line.once(leaf)
    line.add(leaf, "public.a")
    write(line, root, 1)
    line.once(leaf)
    return root, leaf


def write(line: Line, root: LineNode, number: int) -> int:
    root.database.execute("insert into a values (%s)", number)
    return line.tick()


def set_back(root: LineNode, tick: int) -> None:
    """The root as it was at the tick before: from a backup, or a standby that came too late."""
    root.database.execute(
        "delete from a where id = 2;"
        f"update pgq.subscription set sub_batch = null, sub_next_tick = null, sub_last_tick = ("
        f" select max(tick_id) from pgq.tick where tick_id < {tick}) where sub_last_tick >= {tick}"
        f" or sub_next_tick >= {tick};"
        f"delete from pgq.tick where tick_id >= {tick};"
        "select setval('pgq.event_1_tick_seq', (select max(tick_id) from pgq.tick))"
    )


def refused(line: Line, leaf: LineNode, reason: str, way: str = "--rewind") -> None:
    done = line.here(leaf, "worker", "--once")
    assert done.code == 3, str(done)
    assert reason in done.err and way in done.err


def test_a_provider_that_was_set_back_is_noticed_before_and_after_it_went_on(line: Line) -> None:
    root, leaf = pair(line)
    lost = write(line, root, 2)
    line.once(leaf)
    set_back(root, lost)
    refused(line, leaf, "it is older than the data")
    # The same number again, for another tick with other events: they would count as read.
    assert write(line, root, 3) == lost
    refused(line, leaf, "it is older than the data")
    done = line.here(leaf, "worker", "--rewind")
    assert done.code == 3 and f"tick {lost} is another tick" in done.err, str(done)
    assert "--rewind --force-resync" in done.err
    assert leaf.database.execute(CONTENTS) == [(1,), (2,)]
    assert "it is older than the data" in (line.error(leaf) or "")
    # The sign goes with rotation, and nothing else would tell.
    root.database.execute("delete from pgq.tick where tick_id <= %s", lost)
    refused(line, leaf, "it is older than the data")
    done = line.here(leaf, "worker", "--rewind")
    assert done.code == 3 and f"not tick {lost}" in done.err, str(done)


def test_a_worker_that_runs_notices_it_by_the_batch(line: Line) -> None:
    root, leaf = pair(line)
    worker = line.start(leaf)
    lost = write(line, root, 2)
    line.wait_position(leaf, lost)
    line.wait(
        lambda: root.database.value(
            "select sub_last_tick = %s and sub_batch is null from pgq.subscription"
            " join pgq.consumer on co_id = sub_consumer where co_name = 'leaf_worker'",
            lost,
        ),
        "the batch to be finished",
    )
    set_back(root, lost)
    assert write(line, root, 3) == lost
    line.wait(lambda: "is not that of this node" in (line.error(leaf) or ""), "refusal")
    worker.stop()
    assert leaf.database.execute(CONTENTS) == [(1,), (2,)]


def test_a_worker_that_was_registered_anew_elsewhere_stops_and_can_be_rewound(line: Line) -> None:
    root, leaf = pair(line)
    write(line, root, 2)
    root.database.execute(f"select pgq_node.unregister_subscriber('{QUEUE}', 'leaf')")
    refused(line, leaf, "the consumer is not registered any more", "londiste change-provider")
    newest = root.database.value("select max(tick_id) from pgq.tick")
    register = f"select pgq_node.register_subscriber('{QUEUE}', 'leaf', 'leaf_worker', {newest})"
    root.database.execute(register)
    refused(line, leaf, "the consumer was registered again")
    assert line.here(leaf, "worker", "--rewind").code == 0
    line.once(leaf)
    assert leaf.database.execute(CONTENTS) == [(1,), (2,)]


def test_a_worker_that_is_registered_again_behind_its_back_says_so_while_nothing_happens(
    line: Line,
) -> None:
    root, leaf = pair(line)
    # What it has not seen yet would be left out, and the quiet queue would not tell.
    line.configure(leaf, poll_interval=0.1)
    worker = line.start(leaf)
    write(line, root, 2)
    line.wait_position(leaf, line.tick())
    rows = itertools.count(3)

    def replaced() -> bool:
        """Registered again while it stands still; in a transaction it would keep its locks."""
        worker.send(signal.SIGSTOP)
        newest = write(line, root, next(rows))
        try:
            root.database.execute(
                "set lock_timeout = '1s';"
                f"select pgq.unregister_consumer('{QUEUE}', 'leaf_worker');"
                f"select pgq_node.register_subscriber('{QUEUE}', 'leaf', 'leaf_worker', {newest})"
            )
        except psycopg.errors.LockNotAvailable:
            worker.send(signal.SIGCONT)
            return False
        return True

    line.wait(replaced, "a worker that stands still and holds nothing")
    worker.send(signal.SIGCONT)
    line.wait(lambda: line.error(leaf), "an error without another tick")
    line.wait(lambda: "has lost its position" in worker.said(), "that it stays")
    assert "recovered after" not in worker.said()
    assert "has lost its position" in line.here(leaf, "status").out
    worker.stop()
    assert line.here(leaf, "worker", "--rewind").code == 0
    line.once(leaf)
    assert leaf.database.execute(CONTENTS) == [(number,) for number in range(1, next(rows))]


def test_a_worker_goes_on_after_a_rebase_where_the_dump_has_its_tick(line: Line) -> None:
    root, leaf = pair(line)
    write(line, root, 2)
    # As if the database had come here by a dump.
    root.database.execute("update pgq.cluster_identity set row_xmin = 0, system_identifier = 0")
    done = line.here(leaf, "worker", "--once")
    assert done.code == 4 and "londiste queue rebase" in done.err, str(done)
    root.database.execute("insert into a values (3)")
    before = root.database.value("select pgq.queue_generation(%s)", QUEUE)
    [rebased] = rebase.rebase(root.database.dsn)
    assert rebased.generation != before and rebased.arrived == 1
    line.tick()
    line.once(leaf)
    assert leaf.database.execute(CONTENTS) == [(1,), (2,), (3,)]
    known = "select ks_generation from pgq.known_source"
    assert leaf.database.value(known) == rebased.generation


POSITION = (
    "select sub_last_tick from pgq.subscription join pgq.consumer on co_id = sub_consumer"
    " where co_name = %s"
)
FINISHED = f"{POSITION} and sub_batch is null"


def test_a_worker_whose_provider_has_forgotten_finished_batches_goes_on(line: Line) -> None:
    root, leaf = pair(line)
    before = line.position(leaf)
    for number in (2, 3, 4):
        write(line, root, number)
        line.once(leaf)
    # What a crash leaves that forgets the ends of batches.
    back = "select pgq.register_consumer_at(%s, 'leaf_worker', %s)"
    root.database.execute(back, QUEUE, before)
    last = write(line, root, 5)
    line.once(leaf)
    assert leaf.database.execute(CONTENTS) == [(number,) for number in (1, 2, 3, 4, 5)]
    assert root.database.value(FINISHED, "leaf_worker") == line.position(leaf) == last


def test_a_worker_without_a_proof_refuses_a_provider_that_is_behind(line: Line) -> None:
    root, leaf = pair(line)
    before = line.position(leaf)
    for number in (2, 3, 4):
        write(line, root, number)
        line.once(leaf)
    root.database.execute(f"select pgq.register_consumer_at('{QUEUE}', 'leaf_worker', {before})")
    leaf.database.execute("select pgq.forget_known_sources(%s, null)", QUEUE)
    refused(line, leaf, "the provider delivers ticks")
    assert leaf.database.execute(CONTENTS) == [(1,), (2,), (3,), (4,)]


def test_a_provider_that_crashes_forgets_finished_batches_and_nothing_comes_twice(
    new_cluster: Callable[..., Cluster], line: Line
) -> None:
    # Nobody flushes what a commit did not flush.
    server = new_cluster("root", settings={"wal_writer_delay": "10s", "autovacuum": "off"})
    schema = "create table a (id int primary key)"
    root = line.node("root", NodeType.ROOT, schema=schema, on=server)
    # A branch takes tick by tick, however many wait.
    branch = line.node("branch", NodeType.BRANCH, root, schema=schema)
    line.add(root, "public.a")
    line.tick()
    line.once(branch)
    line.add(branch, "public.a")
    ticks = [write(line, root, number) for number in range(1, 8)]
    worker = line.start(branch)
    line.wait(lambda: root.database.value(FINISHED, "branch_worker") == ticks[-1], "all batches")
    worker.kill()
    server.restart("immediate")
    assert root.database.value(POSITION, "branch_worker") < ticks[-2], "several are forgotten"
    worker = line.start(branch)
    last = write(line, root, 8)
    line.wait_position(branch, last)
    line.wait(lambda: root.database.value(FINISHED, "branch_worker") == last, "the last one")
    worker.stop()
    assert branch.database.execute(CONTENTS) == [(number,) for number in range(1, 9)]
    made = "select tick_id, tick_time from pgq.tick where tick_id >= %s order by tick_id"
    assert branch.database.execute(made, ticks[0]) == root.database.execute(made, ticks[0])


@kept_nodes
def with_branch(line: Line) -> tuple[LineNode, LineNode, LineNode]:
    """The same, and a branch beside the leaf."""
    table = "create table a (id int primary key)"
    root = line.node("root", NodeType.ROOT, schema=table)
    line.add(root, "public.a")
    below = [
        line.node("branch", NodeType.BRANCH, root, schema=table),
        line.node("leaf", NodeType.LEAF, root, schema=table),
    ]
    for node in below:
        line.tick()
        line.once(node)
        line.add(node, "public.a")
    write(line, root, 1)
    for node in below:
        line.once(node)
    return root, *below  # type: ignore[return-value]


TAKE = ("takeover", "root", "--node", "branch", "--dead-root", "--timeout", "0")


def test_a_node_that_is_ahead_of_the_new_root_never_reads_from_it(line: Line) -> None:
    root, branch, leaf = with_branch(line)
    lost = write(line, root, 2)
    line.once(leaf)
    change = ("change-provider", "--provider", "branch", "--timeout", "0")
    with closed(root.database):
        with closed(leaf.database):
            done = line.here(branch, *TAKE)
            assert done.code == 0, str(done)
        refused_now = line.here(leaf, *change)
        assert refused_now.code == 3, str(refused_now)
        assert "has events that branch does not have" in refused_now.err
        assert "the newest tick of the root is" in refused_now.err
        branch.database.execute("insert into a values (3)")
        while line.tick(branch) < lost:
            branch.database.execute("select pgq.force_tick(%s)", QUEUE)
        refused_now = line.here(leaf, *change)
        assert refused_now.code == 3, str(refused_now)
        assert f"tick {lost} is another tick" in refused_now.err
        again = "create it again: londiste drop-node leaf; then, with the settings of leaf: "
        where = [shlex.quote(node.database.dsn) for node in (leaf, branch)]
        create = f"londiste create-leaf leaf {where[0]} --provider {where[1]}"
        assert again + create in refused_now.err.replace(f" -c {leaf.config}", "")
        # Nothing had begun.
        assert line.here(leaf, *change, "--rollback").code == 3
        # A worker does not trust the number either, whoever has registered it.
        branch.database.execute(
            "select pgq_node.register_subscriber(%s, 'leaf', 'leaf_worker', %s)", QUEUE, lost
        )
        leaf.database.execute(
            "select pgq_node.change_consumer_provider(%s, 'leaf_worker', 'branch')", QUEUE
        )
        refused(line, leaf, "is another tick")
    assert leaf.database.execute(CONTENTS) == [(1,), (2,)]


def test_a_tick_that_a_killed_worker_has_left_out_is_the_same_tick(line: Line) -> None:
    root, branch, leaf = with_branch(line)
    write(line, root, 2)
    line.once(leaf)
    killed = line.run(branch, "worker", "--once", env={"LONDISTE_CRASH": "worker.after-commit"})
    assert killed.code == -signal.SIGKILL, str(killed)
    with closed(root.database):
        done = line.here(branch, *TAKE)
        assert done.code == 0, str(done)
        branch.database.execute("insert into a values (3)")
        line.tick(branch)
        line.once(leaf)
    for node in (branch, leaf):
        assert node.database.execute(CONTENTS) == [(1,), (2,), (3,)]


def test_a_worker_that_is_unregistered_while_it_runs_names_the_way_that_keeps_its_position(
    line: Line,
) -> None:
    root, leaf = pair(line)
    process = line.start(leaf)
    line.wait_position(leaf, write(line, root, 2))
    with root.database.connect() as conn:
        conn.execute("select pgq.unregister_consumer(%s, 'leaf_worker')", [QUEUE])
    line.wait(lambda: "change-provider" in (line.error(leaf) or ""), "the hint")
    assert "pgq.register_consumer" not in (line.error(leaf) or "")
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    # Now the cause is that no worker runs.
    done = line.here(leaf, "wait-sync", "--timeout", "1")
    assert "NOT RUNNING" in done.err, str(done)
