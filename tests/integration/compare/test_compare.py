"""``londiste compare``: both tables at one tick, during writes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pytest

from londiste.cascade.model import NodeType
from londiste.compare import accept, checksum, context, repair
from londiste.compare import compare as run
from londiste.compare.pause_at_tick import aligned
from londiste.compare.repair_plan import RepairChange
from londiste.compare.result import Comparison, TableResult
from londiste.db.connection import Connection
from londiste.engine import tasks
from londiste.errors import NodeUnreachable
from londiste.pgq import queues
from londiste.settings import WorkerSettings, load
from tests.fixtures.line import QUEUE, Line, LineNode
from tests.support import lines
from tests.support.servers.kept_nodes import kept_nodes
from tests.support.suite.slow import first
from tests.support.waiting import wait_for

SCHEMA = """
create table t (id int primary key, a text, b numeric, "C c" bytea);
create table other (id int primary key);
"""
FILL = "insert into t select i, 'x' || i, i / 7.0, '\\x00' from generate_series(1, 200) i"


@kept_nodes
def _pair(line: Line) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    line.add(root, "t", "other")
    line.add(leaf, "t", "other")
    root.database.execute(FILL)
    line.tick()
    line.once(leaf)
    return root, leaf


@pytest.fixture
def pair(line: Line) -> tuple[LineNode, LineNode]:
    """Root and leaf in step, with a running worker."""
    root, leaf = _pair(line)
    line.start(leaf)
    return root, leaf


def compare(line: Line, node: LineNode, *args: str, code: int = 0) -> dict[str, Any]:
    done = line.here(node, "compare", "--json", *args)
    assert done.code == code, str(done)
    answer: dict[str, Any] = json.loads(done.out)
    return answer


def damage(leaf: LineNode, statement: str) -> None:
    with psycopg.connect(leaf.database.dsn) as conn:
        conn.execute("set session_replication_role = replica")
        conn.execute(statement.encode())


def test_equal_tables_are_equal_while_the_source_is_written_to(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    root, leaf = pair
    stop = threading.Event()
    written: list[int] = []

    def write() -> None:
        with psycopg.connect(root.database.dsn, autocommit=True) as conn:
            while not stop.is_set():
                conn.execute("update t set a = a || '.' where id = %s", [len(written) % 200 + 1])
                written.append(1)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            before = len(written)
            answer = compare(line, leaf)
            assert answer["equal"] is True
            assert {t["table"]: t["rows_here"] for t in answer["tables"]} == {
                "public.t": 200,
                "public.other": 0,
            }
            assert len(written) > before
    finally:
        stop.set()
        writer.join()
    assert compare(line, leaf)["equal"] is True


def test_tables_that_are_truncated_meanwhile_are_not_called_different(
    line: Line, pair: tuple[LineNode, LineNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, leaf = pair
    again = iter([True, True, False])
    real = checksum.compare

    def compare_late(at: Any, pieces: Any, *args: Any, **options: Any) -> Any:
        if next(again):
            root.database.execute("truncate t; insert into t values (1, 'new', 0, null)")
        return real(at, pieces, *args, **options)

    monkeypatch.setattr(run, "compare", compare_late)
    said: list[str] = []

    def done(result: TableResult) -> None:
        said.append(result.table)

    found = run.compare_tables(
        load(WorkerSettings, leaf.config, {"engine": "local"}),
        context.Asked(timeout=30),
        say=said.append,
        done=done,
    )
    assert found.equal
    assert {r.table: r.rows_root for r in found.tables} == {"public.t": 1, "public.other": 0}
    assert sum(text.startswith("truncated") for text in said) == 2
    assert (said.count("public.t"), said.count("public.other")) == (1, 1)


DAMAGE = [
    "delete from {t} where id = 20",
    "insert into {t} values (0, 'new', 1, null)",
    "update {t} set a = 'x1 ' where id = 1",
    "update {t} set b = 1.0 where id = 7",
    "update {t} set \"C c\" = '\\x01' where id = 3",
    'update {t} set "C c" = null where id = 3',
    "update {t} set a = '' where id = 4",
    "update {t} set id = id + 1000 where id = 5",
    "update {t} set a = case id when 1 then 'x2' else 'x1' end where id in (1, 2)",
    "insert into {t} select * from {t}; alter table {t} disable trigger all",
]


@pytest.mark.slow
def test_every_kind_of_difference_is_found_and_nothing_else(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    root, leaf = pair
    names = [f"d{n}" for n in range(len(DAMAGE) + 1)]
    for node in (root, leaf):
        for name in names:
            # The last kind needs a table that takes a row twice.
            key = "" if name == f"d{len(DAMAGE) - 1}" else " primary key"
            node.database.execute(
                f'create table {name} (id int{key}, a text, b numeric, "C c" bytea)'
            )
            node.database.execute(
                f"insert into {name} select i, 'x' || i, i / 7.0, '\\x00'"
                " from generate_series(1, 20) i"
            )
    line.add(root, *names, insert_only=True)
    line.add(leaf, *names, insert_only=True)
    for name, statement in zip(names, DAMAGE, strict=False):
        damage(leaf, statement.format(t=name))
    answer = compare(line, leaf, code=3)
    assert answer["equal"] is False
    found = {t["table"].removeprefix("public."): t["equal"] for t in answer["tables"]}
    assert {name for name, equal in found.items() if not equal} == set(names[:-1])
    assert compare(line, leaf, "oth*", names[-1])["equal"] is True


def test_a_worker_goes_on_after_a_comparison(line: Line, pair: tuple[LineNode, LineNode]) -> None:
    root, leaf = pair
    tick = compare(line, leaf)["tick"]
    assert line.position(leaf) == tick
    root.database.execute("delete from t where id = 1")
    line.wait_position(leaf, line.tick())
    assert leaf.database.value("select count(*) from t") == 199


def test_without_a_worker_it_ends_in_time_and_says_who_was_waited_for(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    root, leaf = pair
    assert leaf.worker is not None
    leaf.worker.kill()
    done = line.here(leaf, "compare", "--timeout", "0.5")
    assert done.code == 3
    assert "error: queue line: worker leaf_worker did not reach tick" in done.err
    assert "hint: start it" in done.err
    holds = "select count(*) from pgq_node.consumer_hold"
    assert leaf.database.value(holds) == 0
    assert (
        root.database.value("select count(*) from pg_stat_activity where state like 'idle in%'")
        == 0
    )


@pytest.mark.parametrize(
    ("args", "code", "error"),
    [
        (["nope"], 2, "error: table nope: not replicated on this node"),
        (["n*pe"], 2, "error: table n*pe: not replicated on this node"),
    ],
)
def test_a_wrong_name_is_refused(
    line: Line, pair: tuple[LineNode, LineNode], args: list[str], code: int, error: str
) -> None:
    done = line.here(pair[1], "compare", *args)
    assert (done.code, done.err.splitlines()[0]) == (code, error)


def test_the_root_compares_with_nobody(line: Line, pair: tuple[LineNode, LineNode]) -> None:
    done = line.here(pair[0], "compare")
    assert done.code == 3
    assert f"error: node root: is the root of queue {QUEUE}" in done.err


def test_a_table_that_is_not_in_step_is_refused(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    _, leaf = pair
    leaf.database.execute(
        "update londiste.table_info set merge_state = 'in-copy' where table_name = 'public.t'"
    )
    assert leaf.worker is not None
    leaf.worker.kill()
    done = line.here(leaf, "compare")
    assert done.code == 3
    assert "error: tables not in sync: public.t is being copied" in done.err


def test_an_equal_table_that_ddl_has_rewritten_ends_the_finding(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    leaf = pair[1]
    found = "select table_name from londiste.rewritten_tables('line')"
    for node in pair:
        node.database.execute("alter table t add column z int default 4")
    for part in (("--where", "id > 1"), ("--count-only",)):
        assert "the finding" not in line.here(leaf, "compare", "t", *part).err
    assert leaf.database.execute(found)
    done = line.here(leaf, "compare", "t")
    assert done.code == 0
    assert "was changed without events and is equal: the finding of this node has ended" in done.err
    assert not leaf.database.execute(found)
    leaf.database.execute("create table u as table t; alter table u add primary key (id)")
    leaf.database.execute("alter table t rename to old; alter table u rename to t")
    done = line.here(leaf, "compare", "t")
    assert "is not the table that was copied and is equal: the finding" in done.err, done.err
    assert "the finding" not in line.here(leaf, "compare", "t").err

    # DDL that comes after the table was read, and a role without the right.
    for node in pair:
        node.database.execute("alter table t add column y int default 4")
    settings = load(WorkerSettings, leaf.config)
    before = accept.doubts(settings)
    leaf.database.execute("alter table t alter y type bigint using y + 1")
    assert accept.accept(settings, before, "public.t") is accept.Accepted.CHANGED
    before = accept.doubts(settings)
    leaf.database.execute("grant select on t to pgq_reader")
    reader = f"{settings.db} options='-c role=pgq_reader'"
    role = settings.model_copy(update={"db": reader})
    assert accept.accept(role, before, "public.t") is accept.Accepted.DENIED
    assert leaf.database.execute(found)
    assert accept.accept(settings, before, "public.t") is accept.Accepted.ENDED

    # A column of this node alone is not replicated; values of one of the root alone are lost.
    leaf.database.execute(
        "alter table t alter y type int using 4, add mine timestamptz default clock_timestamp()"
    )
    assert "the finding of this node has ended" in line.here(leaf, "compare", "t").err
    pair[0].database.execute("alter table t add column yours int")
    leaf.database.execute("alter table t alter y type numeric using y")
    done = line.here(leaf, "compare", "t")
    assert done.code == 3 and leaf.database.execute(found)
    assert (
        "public.t: columns of the root that this node does not store were not compared: yours;"
        " londiste columns public.t --add" in done.err
    )
    assert "differ" not in done.err and " no " in done.out and "the finding" not in done.err
    assert line.here(leaf, "compare", "t", "--count-only").code == 0

    # A type that rounds the root's values.
    pair[0].database.execute("alter table t drop yours, add n numeric default 1.26")
    leaf.database.execute("alter table t add n numeric(4,1) default 1.3")
    done = line.run(leaf, "compare", "t")
    assert done.code == 0 and leaf.database.execute(found)
    assert (
        "table public.t: columns compared only as far as their types on this node keep the values"
        " of the root: n" in done.err
    )
    assert (
        "the finding stays: the types on this node do not keep all values of the root: n; give"
        " these columns the types of the root and compare it again; or," in done.err
    )
    # A column that is computed in another way.
    made = "add g int generated always as (id * {}) stored"
    pair[0].database.execute(f"alter table t {made.format(2)}")
    leaf.database.execute(f"alter table t alter n type numeric using 1.26, {made.format(3)}")
    done = line.run(leaf, "compare", "t")
    assert done.code == 0 and leaf.database.execute(found)
    assert "generated columns not compared, their expressions differ: g" in done.err
    assert "other expressions than on the root: g; give them the expressions of the" in done.err
    leaf.database.execute(f"alter table t drop g, {made.format(2)}")
    assert "the finding of this node has ended" in line.run(leaf, "compare", "t").err


def test_a_table_without_columns_is_counted(line: Line, pair: tuple[LineNode, LineNode]) -> None:
    leaf = pair[1]
    for node in pair:
        node.database.execute("create table nothing (a int)")
        line.add(node, "nothing", insert_only=True, expect_sync=True)
        node.database.execute("alter table nothing drop a")
    line.wait_position(leaf, line.tick())
    damage(leaf, "insert into nothing default values")
    done = line.here(leaf, "compare", "nothing")
    assert done.code == 3, str(done)
    assert "table public.nothing: no column in common with the root" in done.err
    assert "londiste compare public.nothing --count-only" in done.err
    counted = compare(line, leaf, "nothing", "--count-only", code=3)["tables"][0]
    assert (counted["rows_root"], counted["rows_here"]) == (0, 1)
    leaf.database.execute("drop table nothing")
    done = line.here(leaf, "compare", "nothing")
    assert done.code == 2
    assert "does not exist" in done.err


def test_a_halted_worker_is_reported_at_once_with_its_event(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    root, leaf = pair
    damage(leaf, "insert into t values (1001, 'y')")
    root.database.execute("insert into t values (1001, 'x')")
    line.tick()
    wait_for(lambda: line.error(leaf), what="the worker to halt")
    for command in ("compare", "repair"):
        done = line.here(leaf, command, "t", "--timeout", "600")
        assert done.code == 3, str(done)
        assert "worker leaf_worker is halted at event" in done.err
        assert "hint: decide about the event first: londiste events show\n" in done.err
    # What the worker advises leads to no circle: the table is compared after the event.
    logged = line.processes.everything_said().partition("copy the table again: ")[2]
    hint = logged.splitlines()[0]
    assert "events skip" in hint.partition("compare")[0] and "then compare the table" in hint


def test_a_table_whose_rows_cannot_be_read_does_not_stop_the_others(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    root, leaf = pair
    root.database.execute("insert into other values (1001), (1002)")
    line.wait_position(leaf, line.tick())
    damage(leaf, "delete from other where id = 1002")
    done = line.here(leaf, "compare", "--where", "1 / (id - 5) is not null")
    assert done.code == 1, str(done)
    assert "division by zero" in done.err
    assert "table public.t; the other tables were compared" in done.err
    assert "public.other missing here: id='1002'" in done.err
    rows = [tuple(text.split()[:2]) for text in done.out.splitlines()]
    assert rows == [("table", "equal"), ("public.other", "no"), ("public.t", "failed")]
    done = line.here(leaf, "compare", "--where", "1 / (id - 5) is not null", "--json")
    told = json.loads(done.out)
    assert done.code == told["exit_code"] == 1 and "division by zero" in told["error"]
    ((other,), (failed,)) = told["tables"], told["failed"]
    assert not told["equal"] and failed["table"] == "public.t"
    assert "division by zero" in failed["error"]
    assert (other["table"], other["equal"], other["missing"]) == ("public.other", False, 1)


@pytest.mark.parametrize("silent", ["root", "leaf"])
def test_a_silent_server_does_not_stop_the_ticks_of_the_root(
    pair: tuple[LineNode, LineNode], monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    root = pair[0]
    places = {node.name: node.database.dsn for node in pair}
    limits: list[str] = []
    locked = queues.lock_ticks
    with lines.Line(places[silent]) as silenced:

        def fall_silent(conn: Connection, queue: str) -> None:
            locked(conn, queue)
            row = conn.execute("show idle_in_transaction_session_timeout").fetchone()
            limits.extend(row or ())
            silenced.stall()

        monkeypatch.setattr(queues, "lock_ticks", fall_silent)
        places[silent] = silenced.dsn
        ticks: list[str] = []
        with pytest.raises(NodeUnreachable, match="not responded for 1 s"):
            with aligned(
                QUEUE,
                "leaf_worker",
                places["root"],
                places["leaf"],
                timeout=60,
                answer_seconds=1.0,
                progress=ticks.append,
            ):
                pass
    # The tick is created before the leaf is waited for.
    assert len(ticks) == (silent == "leaf")
    # Of a process that has stopped the server ends the session.
    assert limits == ["10s"]
    root.database.execute("set lock_timeout = '5s'; select pgq.lock_ticks('line')")


@pytest.mark.parametrize("silent", first(["repairing", "reading", "waiting"]))
def test_a_comparison_with_a_silent_node_ends(
    pair: tuple[LineNode, LineNode], monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    leaf = pair[1]
    damage(leaf, "update t set a = 'y' where id = 7")
    with lines.Line(leaf.database.dsn) as silenced:
        settings = load(
            WorkerSettings,
            leaf.config,
            {"db": silenced.dsn, "engine": "local", "lock_timeout": 0.5, "response_timeout": 0.5},
        )
        asked = context.Asked(tables=["t"], timeout=60)

        def compared(say: Callable[[str], None] = lambda text: None) -> Comparison:
            return run.compare_tables(settings, asked, say=say, done=lambda result: None)

        def silent_from(module: Any, name: str) -> None:
            real = getattr(module, name)

            def call(*args: Any, **options: Any) -> Any:
                silenced.stall()
                return real(*args, **options)

            monkeypatch.setattr(module, name, call)

        plan: Sequence[RepairChange] = ()
        if silent == "reading":
            silent_from(tasks, "sums")
        elif silent == "repairing":
            plan = repair.planned(settings, compared(), asked)
            silent_from(repair, "_one")
        with pytest.raises(NodeUnreachable, match=r"not responded for 1 s|is closed"):
            if plan:
                repair.apply(settings, plan, timeout=60, say=lambda text: None)
            else:
                compared(lambda text: silenced.stall() if silent == "waiting" else None)
    idle = "select count(*) from pg_stat_activity where state like 'idle in%'"
    wait_for(lambda: leaf.database.value(idle) == 0, what="the end of the silent sessions")
