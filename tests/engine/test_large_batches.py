"""A batch above the limit goes through a job of the engine, and the tables end as they would."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from londiste.daemon.signals import Signals
from londiste.embedded.postgres import Cluster
from londiste.engine.base import Engine
from londiste.errors import EventError, LondisteError
from londiste.replication.worker.sessions import Sessions
from londiste.replication.worker.worker import Worker
from londiste.settings import WorkerSettings
from tests.engine.conftest import LOCAL_FIRST
from tests.fixtures.line import QUEUE, Line, LineNode
from tests.support.servers.kept_nodes import kept_nodes

SCHEMA = """
create table fruit (id int8 primary key, name text, price numeric, doc json, at timestamptz);
create table tree (id int8 primary key, code text unique, n int);
create table wild (id float8 primary key, n int);
create table note (line text);
"""
KEYED = ("fruit", "tree", "wild")
TABLES = (*KEYED, "note")
#: Events of a batch that is large here: fewer than statements below, as rows may come packed.
LARGE = 6
SOME_CHANGES = """
insert into fruit select i, 'name ' || i, i / 7.0, ('{"a":  ' || i || '}')::json, now()
    from generate_series(1, 300) i;
insert into tree select i, 'code ' || i, i from generate_series(1, 300) i;
update fruit set price = price + 1 where id % 3 = 0;
update tree set n = n + 1 where id % 2 = 0;
delete from fruit where id % 5 = 0;
insert into note select 'line ' || i from generate_series(1, 50) i;
update fruit set name = null, doc = null where id = 7;
insert into fruit values (5, 'again', 'NaN', '[1.0, 1e400]', 'infinity');
"""


class Nothing:
    """An engine that cannot do anything."""

    name = "spark"

    def run(self, *args: Any) -> Any:
        raise LondisteError("no Java", detail="really")


class WithEngine(Sessions):
    """Those of a worker in this process, with an engine that outlives it."""

    given: Any

    def carrier(self) -> Engine:
        return self.given

    def close_engine(self) -> None:
        return


def once(node: LineNode, carrier: Any, **keys: Any) -> None:
    """Lets the node's worker take all there is; raises its first error."""
    values = {"engine": carrier.name, "parallel_apply_min_events": LARGE, **keys}
    settings = WorkerSettings(
        db=node.database.dsn, queue_name=QUEUE, job_name=f"{node.name}_worker", **values
    )
    with closing(Signals()) as signals:
        sessions = WithEngine(settings)
        sessions.given = carrier
        Worker(lambda: settings, signals, sessions=lambda _: sessions).run_once()


@kept_nodes
def a_pair(line: Line, carrier: Any) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    tables(line, root)
    line.tick()
    once(leaf, carrier)
    tables(line, leaf)
    return root, leaf


def tables(line: Line, node: LineNode) -> None:
    line.add(node, *KEYED)
    line.add(node, "note", insert_only=True)


def way(node: LineNode) -> tuple[str, str]:
    (found,) = node.database.execute("select way, reason from londiste.large_batch")
    return found[0], found[1]


def contents(node: LineNode) -> dict[str, list[tuple[Any, ...]]]:
    return {
        table: node.database.execute(f"select row(t.*)::text from {table} t order by 1")
        for table in TABLES
    }


def staged(node: LineNode) -> list[tuple[Any, ...]]:
    return node.database.execute(
        "select relname from pg_class where relname like 'staged\\_%' and relkind = 'r'"
        " union all select 'mark' from londiste.large_batch_slice"
    )


def test_a_large_batch_goes_through_a_job(line: Line, carrier: Engine) -> None:
    root, leaf = a_pair(line, carrier)
    root.database.execute(SOME_CHANGES)
    tick = line.tick()
    once(leaf, carrier)
    assert line.position(leaf) == tick
    assert contents(leaf) == contents(root)
    assert way(leaf) == ("job", "")
    assert staged(leaf) == []


def test_a_batch_that_only_looks_large_by_its_ticks_starts_nothing(line: Line) -> None:
    nothing = Nothing()
    root, leaf = a_pair(line, nothing)
    root.database.execute(SOME_CHANGES)
    line.tick()
    once(leaf, nothing, parallel_apply_min_events=2000)  # a forced tick skips more ids
    assert contents(leaf) == contents(root)
    assert leaf.database.execute("select * from londiste.large_batch") == []


@LOCAL_FIRST
def test_a_transaction_with_a_tick_inside_is_as_large_as_its_events(
    line: Line, carrier: Engine
) -> None:
    root, leaf = a_pair(line, carrier)
    root.database.execute(f"select pgq.set_queue_config('{QUEUE}', 'ticker_max_lag', '0')")
    with root.database.connect(autocommit=False) as large:
        for number in range(40):
            large.execute("insert into public.note values (%s)", [f"line {number}"])
        line.tick()
        once(leaf, carrier, parallel_apply_min_events=30)
        leaf.database.execute("delete from londiste.large_batch")
    # Not forced: that would skip ids, and the batch seem large.
    root.database.execute("insert into note values ('after it')")
    assert root.database.value("select pgq.ticker(%s)", QUEUE) is not None
    once(leaf, carrier, parallel_apply_min_events=30)
    assert contents(leaf) == contents(root)
    assert way(leaf) == ("job", "")


@LOCAL_FIRST
def test_a_truncate_between_other_changes_keeps_its_place(line: Line, carrier: Engine) -> None:
    root, leaf = a_pair(line, carrier)
    root.database.execute(SOME_CHANGES)
    root.database.execute(
        "truncate fruit; insert into fruit (id, name) select i, 'new' from generate_series(1, 9) i;"
        "truncate note; insert into note values ('last')"
    )
    line.tick()
    once(leaf, carrier)
    assert contents(leaf) == contents(root)
    assert way(leaf) == ("job", "")


@LOCAL_FIRST
def test_a_table_whose_keys_have_no_one_text_goes_the_ordinary_way_alone(
    line: Line, carrier: Engine
) -> None:
    root, leaf = a_pair(line, carrier)
    root.database.execute(SOME_CHANGES)
    root.database.execute(
        "insert into wild values (1, 1), (0, 5); update wild set n = 2 where id = 1;"
        "update wild set n = 6 where id = '-0'; delete from wild where id = 1"
    )
    line.tick()
    once(leaf, carrier)
    assert contents(leaf) == contents(root)
    assert way(leaf)[0] == "part"
    assert "wild" in way(leaf)[1]
    assert "fruit" not in way(leaf)[1]


@LOCAL_FIRST
def test_unique_values_handed_on_between_rows_are_no_obstacle(line: Line, carrier: Engine) -> None:
    root, leaf = a_pair(line, carrier)
    root.database.execute(SOME_CHANGES)
    line.tick()
    once(leaf, carrier)
    root.database.execute(
        "begin; update tree set code = 'tmp' where id = 1; update tree set code = 'code 1' where"
        " id = 2; update tree set code = 'code 2' where id = 1; update fruit set price = 1; commit"
    )
    line.tick()
    once(leaf, carrier, parallel_apply_min_events=2, parallel_apply_tasks=1)
    assert contents(leaf) == contents(root)
    assert way(leaf)[0] == "part"
    assert "duplicate key" in way(leaf)[1]


@LOCAL_FIRST
def test_a_row_that_is_missing_here_stops_the_batch_and_names_the_event(
    line: Line, carrier: Engine
) -> None:
    root, leaf = a_pair(line, carrier)
    root.database.execute(SOME_CHANGES)
    line.tick()
    once(leaf, carrier)
    before = contents(leaf)
    replica = "set session_replication_role = replica;"
    leaf.database.execute(replica + "delete from fruit where id = 8")
    root.database.execute("update fruit set price = 5; delete from tree where id > 100")
    position = line.position(leaf)
    line.tick()
    with pytest.raises(EventError, match="no row matches the key"):
        once(leaf, carrier)
    assert line.position(leaf) == position
    assert contents(leaf)["tree"] == before["tree"]
    leaf.database.execute(replica + "insert into fruit (id) values (8)")
    once(leaf, carrier)
    assert contents(leaf) == contents(root)


@LOCAL_FIRST
def test_an_event_that_cannot_be_decoded_is_reported_as_in_a_small_batch(
    line: Line, carrier: Engine
) -> None:
    root, leaf = a_pair(line, carrier)
    root.database.execute(SOME_CHANGES)
    root.database.execute(
        "select pgq.insert_event('line', 'I:id', '%%%', 'public.fruit', '', '', '')"
    )
    line.tick()
    with pytest.raises(EventError, match="cannot be decoded"):
        once(leaf, carrier)
    assert contents(leaf)["fruit"] == []


def test_an_engine_that_does_not_work_costs_time_and_nothing_else(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    nothing = Nothing()
    root, leaf = a_pair(line, nothing)
    root.database.execute(SOME_CHANGES)
    line.tick()
    once(leaf, nothing)
    assert "applying serially: the job failed: no Java" in caplog.text
    assert contents(leaf) == contents(root)
    assert way(leaf) == ("worker", "the job failed: no Java: really")
    assert staged(leaf) == []


def test_an_event_table_that_is_rewritten_meanwhile_costs_time_and_nothing_else(
    line: Line, local_engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    root, leaf = a_pair(line, local_engine)
    table = root.database.value("select pgq.current_event_table(%s)", QUEUE)

    class Rewriting:
        """An engine, and somebody who gives VACUUM FULL when the tasks begin."""

        name = "local"

        def run(self, *args: Any) -> Any:
            root.database.execute(f"vacuum full {table}")
            yield from local_engine.run(*args)

    root.database.execute(
        "begin; select pgq.insert_event('line', 't', n::text) from generate_series(1, 5000) n;"
        " rollback"
    )
    root.database.execute(
        "do $$ begin for i in 1..500 loop insert into note values ('line ' || i); end loop; end $$"
    )
    root.database.execute(SOME_CHANGES)
    line.tick()
    once(leaf, Rewriting())
    assert "an event table may have been rewritten" in caplog.text
    assert way(leaf)[0] == "worker"
    assert contents(leaf) == contents(root)


@LOCAL_FIRST
def test_messages_of_the_cascade_in_a_large_batch_are_followed(line: Line, carrier: Engine) -> None:
    root, leaf = a_pair(line, carrier)
    root.database.execute("create table late (id int primary key); create sequence counter")
    root.database.execute(SOME_CHANGES)
    line.add(root, "late")
    root.database.execute("insert into note select 'after' from generate_series(1, 50)")
    line.tick()
    once(leaf, carrier)
    assert way(leaf) == ("job", "")
    known = "select local from londiste.table_info where table_name = 'public.late'"
    assert leaf.database.execute(known) == [(False,)]
    assert contents(leaf) == contents(root)


@LOCAL_FIRST
def test_a_branch_hands_every_event_on_and_says_why_it_reads_them_itself(
    line: Line, carrier: Engine
) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    branch = line.node("branch", NodeType.BRANCH, root, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, branch, schema=SCHEMA)
    tables(line, root)
    line.tick()
    once(branch, carrier)
    tables(line, branch)
    once(leaf, carrier)
    tables(line, leaf)
    root.database.execute(SOME_CHANGES)
    line.tick()
    once(branch, carrier)
    once(leaf, carrier)
    assert contents(branch) == contents(leaf) == contents(root)
    assert way(branch) == ("worker", "a branch reads every event to forward it")
    assert way(leaf) == ("job", "")


@LOCAL_FIRST
def test_what_a_dead_attempt_has_staged_is_swept_by_the_next(line: Line, carrier: Engine) -> None:
    root, leaf = a_pair(line, carrier)
    leaf.database.execute(
        "select londiste.apply_start('line', 1, 2, 3, 4, 'local');"
        "insert into londiste.large_batch_slice values ('line', 1, 0, 'x')"
    )
    assert len(staged(leaf)) == 2
    root.database.execute(SOME_CHANGES)
    line.tick()
    once(leaf, carrier)
    assert staged(leaf) == []
    assert contents(leaf) == contents(root)


@pytest.mark.slow
@pytest.mark.parametrize("which", ["source", "target"])
def test_a_server_that_crashes_meanwhile_costs_time_and_nothing_else(
    which: str, new_cluster: Callable[..., Cluster], line: Line, tmp_path: Path
) -> None:
    durable = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
    server = new_cluster(which, settings=durable)
    on = {which: server}
    root = line.node("root", NodeType.ROOT, schema=SCHEMA, on=on.get("source"))
    leaf = line.node(
        "leaf",
        NodeType.LEAF,
        root,
        schema=SCHEMA,
        on=on.get("target"),
        parallel_apply_min_events=LARGE,
    )
    tables(line, root)
    line.tick()
    line.once(leaf)
    tables(line, leaf)
    root.database.execute(SOME_CHANGES)
    tick = line.tick()
    mark = tmp_path / "stopped"
    worker = line.start(
        leaf,
        LONDISTE_CRASH="large.mid-merge",
        LONDISTE_CRASH_MARK=str(mark),
        LONDISTE_CRASH_SIGNAL="STOP",
    )
    line.wait(mark.exists, "the worker in the middle of the merge", 60)
    server.restart("immediate")
    worker.go_on()
    line.wait_position(leaf, tick, 60)
    assert worker.stop() == 0
    assert contents(leaf) == contents(root)
    assert way(leaf) == ("job", "")
    assert staged(leaf) == []


@pytest.mark.slow
@pytest.mark.spark
def test_executors_of_their_own_stage_a_batch_also_when_one_is_killed(
    line: Line, tmp_path: Path
) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node(
        "leaf", NodeType.LEAF, root, schema=SCHEMA, engine="spark", parallel_apply_min_events=LARGE
    )
    tables(line, root)
    line.tick()
    line.once(leaf)
    tables(line, leaf)
    root.database.execute(SOME_CHANGES)
    line.tick()
    mark = tmp_path / "killed"
    cluster = ["--set", "spark.master=local-cluster[2,1,1024]"]
    done = line.processes.run(
        line._argv(leaf, *cluster, "worker", "--once"),
        {"LONDISTE_CRASH": "large.mid-slice", "LONDISTE_CRASH_MARK": str(mark)},
        seconds=500,
    )
    assert done.code == 0, str(done)
    assert mark.exists()
    assert contents(leaf) == contents(root)
    assert way(leaf) == ("job", "")
    assert staged(leaf) == []
