"""Whatever an application does while its tables are copied and followed, both sides end equal.

Random tables of random shapes with columns of random types, random statements before the tables are
added, while they are copied, and afterwards; between servers of different releases.  Then the
target is damaged: compare names exactly what differs, and repair mends it.  A compatible trigger
refuses a statement that changes a key, and nothing else.
LONDISTE_TEST_SEED and LONDISTE_TEST_CASES choose others, and how many.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import hypothesis
import psycopg
import pytest
from hypothesis import strategies as st

from londiste.compare import repair
from londiste.compare.compare import compare_tables
from londiste.compare.context import Asked
from londiste.compare.repair_plan import parse
from londiste.compare.result import Comparison
from londiste.orchestration.connections import Connections
from londiste.replication.model import TRIGGERS, TableOptions
from londiste.settings import WorkerSettings, load
from tests.capture.cases import MAIN, Case, Mark, Statement, Undone, Write
from tests.capture.damage import harm, wrongly_told
from tests.capture.pair import UNKNOWN, USERS_OWN, Differs, Pair, _raw
from tests.capture.statements import random_case
from tests.capture.threads import WorkerThread
from tests.fixtures.cascade import QUEUE, Node, Nodes
from tests.fixtures.cluster import Database, Server, create_database
from tests.fixtures.nodes import ret
from tests.fixtures.values import quoted, usable
from tests.support.queue_events import writer
from tests.support.scenarios.processes import Processes
from tests.support.waiting import wait_for

START = int(os.environ.get("LONDISTE_TEST_SEED") or 1)
CASES = int(os.environ.get("LONDISTE_TEST_CASES") or 0)
FORMS = ("row", "statement", "auto")
#: What captures: ours most of the time, and the triggers that every program of the family reads.
COMPATIBLE = tuple(name for name in TRIGGERS if name != "capture")
TRIGGERS_OF_CASES = ("capture",) * 9 + COMPATIBLE
KEY_CHANGED, KEY_REFUSED = "key changed", "primary key update not allowed"
#: A case may differ in more rows than compare looks for by default.
ASKED = Asked(timeout=30.0, limit=100_000)
VERSIONS = {"15 to 18": (15, 18), "18 to 16": (18, 16)}


class Unsayable(Exception):
    """A key got an equal value with another text: an event of sqltriga keeps the old one.

    The types of the target may call them different: a collation that it does not have.
    """


class CopyPair(Pair):
    """A root and a leaf whose worker is a process; a case is copied before it is followed."""

    def __init__(self, root: Node, leaf: Node, config: Path, follower: Follower) -> None:
        self.root, self.leaf = root, leaf
        self.source = root.connect()
        self.target = leaf.connect(replica=True, lock_timeout_ms=5000)
        self.app = writer(root.dsn)
        self.worker = leaf.worker
        self.refused = self.written = self.damaged = 0
        self._after: list[str] = []
        self._notices: list[str] = []
        self.app.add_notice_handler(
            lambda notice: self._notices.append(notice.message_primary or "")
        )
        self.trigger = "capture"
        self.follower = follower
        self.settings = load(WorkerSettings, config)
        self.types = self._types()

    def _types(self) -> dict[str, list[str]]:
        """Types and values that both servers have."""
        with (
            psycopg.connect(self.root.dsn, autocommit=True) as one,
            psycopg.connect(self.leaf.dsn, autocommit=True) as other,
        ):
            there, here = usable(one), usable(other)
        both = {name: [v for v in there[name] if v in here[name]] for name in there if name in here}
        return {name: values for name, values in both.items() if values}

    def run(
        self, case: Case, *, strict: bool = True, trigger: str = "capture", damage: bool = True
    ) -> None:
        """Raises Differs when the two sides do not end equal, or a damage is not mended.

        trigger -- what captures the tables: a word of ``add-table --trigger``.
        """
        self.trigger = trigger
        pick = random.Random(case.seed)
        self._forget()
        for conn in (self.source, self.target):
            self._clean(conn)
        more = self._more_columns(pick)
        for statement in (*case.made, *more, *case.extras):
            for conn in (self.source, self.target):
                _raw(conn, statement)
        for statement in case.target:
            _raw(self.target, statement)
        self.source.execute(
            "select pgq.set_queue_config(%s, 'packed_events', %s)",
            [QUEUE, str(case.packed).lower()],
        )
        self.app.execute("reset all")
        # the literals of the defaults are read by the session that writes
        settings = {k: v for k, v in case.settings.items() if k != "array_nulls"}
        self.set(self.app, replace(case, settings=settings))
        steps = [step for step in case.steps if isinstance(step, Write | Mark)]
        if self._key(MAIN):
            steps += [Write((self._random_values(pick, len(more)),), guarded=True)]
        pick.shuffle(steps)
        third = len(steps) // 3
        self._steps(steps[:third])
        self._add(case, pick)
        self._steps(steps[third : 2 * third])
        self._wait(self._copied, "the copies")
        self._steps(steps[2 * third :])
        self._follow()
        for table, options in case.tables.items():
            self.compare(table, options)
        if damage:
            self._damage_and_repair(case)

    # -- damage ------------------------------------------------------------------------------

    def _damage_and_repair(self, case: Case) -> None:
        """Compare finds nothing, then what was damaged and no more; repair mends it."""
        self._compared(case)
        self.damaged += harm(self.target, list(case.tables), case.damage, case.seed)
        found = self._compared(case)
        plan = repair.planned(self.settings, found, ASKED)
        written = parse(repair.written(self.settings, plan, found.tick_id, command=""), "the plan")
        assert (written.queue, written.where) == (QUEUE, "")
        if written.changes:
            applied = repair.apply(self.settings, written.changes, timeout=30.0, say=_quiet)
            if applied.stale:
                raise Differs(f"repair has left alone: {applied.stale}")
        if not (again := self._compared(case)).equal:
            raise Differs(f"not equal after the repair: {again}")
        for table in case.tables:
            self.compare(table)

    def _compared(self, case: Case) -> Comparison:
        found = compare_tables(self.settings, ASKED, say=_quiet, done=_quiet)
        assert {result.table for result in found.tables} == set(case.tables)
        for result in found.tables:
            if wrong := wrongly_told(self.source, self.target, result):
                raise Differs(f"compare of {result.table}: {wrong}")
        return found

    # -- steps -------------------------------------------------------------------------------

    def _more_columns(self, pick: random.Random) -> list[str]:
        """Columns of types of the matrix, whose default is one of their values."""
        found = []
        for number, name in enumerate(pick.sample(list(self.types), pick.choice([0, 2, 4]))):
            values = ", ".join(map(quoted, self.types[name]))
            chosen = f"(array[{values}])[1 + floor(random() * {len(self.types[name])})::int]"
            found.append(
                f"alter table {MAIN} add x{number} {name} default cast({chosen} as {name})"
            )
        return found

    def _random_values(self, pick: random.Random, count: int) -> str:
        sets = ", ".join(f"x{number} = default" for number in range(count)) or "n = n + 1"
        return f"update {MAIN} set {sets} where random() < 0.6"

    def _steps(self, steps: list[Write | Mark]) -> None:
        for step in steps:
            if isinstance(step, Write):
                self._write(step, USERS_OWN | UNKNOWN)
            else:
                self.tick()

    def _add(self, case: Case, pick: random.Random) -> None:
        for table, options in case.tables.items():
            own = [] if self._key(table) else ["insert_only"]
            # as ``add-table`` asks: without a word the SQL function makes what everybody can read
            words = TableOptions(trigger_args=(*options, *own), trigger=self.trigger).words()
            code, note = ret(self.root.db, "londiste.local_add_table", QUEUE, table, words)
            assert code < 400, note
            if self.trigger in COMPATIBLE and self._key(table):
                self._tell_key_updates(table)
            ret(self.leaf.db, "londiste.global_add_table", QUEUE, table)
            way = pick.choice([None, None, "copy_mode=snapshot"])
            code, note = ret(self.leaf.db, "londiste.local_add_table", QUEUE, table, own, way, None)
            assert code < 400, note

    def _tell_key_updates(self, table: str) -> None:
        """A notice for every update that changes the key, before our trigger sees it."""
        columns = self.source.execute(
            "select string_agg(format('%%1$s.%%2$I', r.name, a.attname), ', ' order by a.attnum)"
            " from (values ('old'), ('new')) as r (name), pg_index as i"
            " join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)"
            " where i.indrelid = %s::regclass and i.indisprimary group by r.name order by r.name",
            [table],
        ).fetchall()
        new, old = (row[0] for row in columns)
        _raw(
            self.source,
            "create or replace function app.key_told() returns trigger language plpgsql as"
            f" $f$ begin raise notice '{KEY_CHANGED}'; return null; end $f$;"
            f' create trigger "A_key_told" after update on {table} for each row'
            f" when (row({old})::text is distinct from row({new})::text)"
            " execute function app.key_told()",
        )

    def _do(self, statement: Statement, allowed: set[str]) -> None:
        self._notices.clear()
        super()._do(statement, allowed)
        if KEY_CHANGED in self._notices and not isinstance(statement, Undone):
            raise Unsayable

    def _tolerate(self, error: psycopg.Error, allowed: set[str], statement: object) -> None:
        """A compatible trigger refuses statements that change a key, and no others."""
        if error.diag.message_primary == KEY_REFUSED and KEY_CHANGED in self._notices:
            self.refused += 1
            return
        super()._tolerate(error, allowed, statement)

    def _key(self, table: str) -> bool:
        row = self.source.execute(
            "select 1 from pg_index where indrelid = %s::regclass and indisprimary", [table]
        ).fetchone()
        return row is not None

    def _copied(self) -> bool:
        self.source.execute("select pgq.ticker(%s)", [QUEUE])
        return not self.target.execute(
            "select from londiste.table_info where local and merge_state is distinct from 'ok'"
        ).fetchall()

    def _follow(self) -> None:
        self.tick()
        row = self.source.execute("select max(tick_id) from pgq.tick").fetchone()
        assert row is not None

        def reached() -> bool:
            position = self.target.execute(
                "select last_tick_id from pgq_node.local_state where consumer_name = %s",
                [self.worker],
            ).fetchone()
            return position is not None and position[0] >= row[0]

        self._wait(reached, "the worker")

    def _forget(self) -> None:
        """No table of the case before is replicated any more."""
        for conn in (self.target, self.source):
            for (name,) in conn.execute("select table_name from londiste.table_info").fetchall():
                node = self.leaf if conn is self.target else self.root
                ret(node.db, "londiste.local_remove_table", QUEUE, name)
                ret(node.db, "londiste.global_remove_table", QUEUE, name)
        self._follow()

    def _wait(self, done: Callable[[], bool], what: str) -> None:
        try:
            wait_for(done, timeout=90, what=what)
        except AssertionError as error:
            raise Differs(f"{error}\n{self.follower.report()}") from None


def _quiet(_: object) -> None:
    """What the commands would print."""


class Follower(Protocol):
    """Who runs the worker of a leaf."""

    def report(self) -> str:
        """What it has logged, or died of."""


SETTINGS = {
    "queue_name": QUEUE,
    "engine": "local",
    "poll_interval": 0.05,
    "max_retry_delay": 0.2,
    "resumable_copy_min_bytes": 0,
    "copy_chunk_bytes": 16384,
    "parallel_apply_min_events": 100,
}


class Pairs:
    """``pairs("15 to 18")``, made once; the worker is a process or a thread."""

    def __init__(self, home: Path, server_of: Callable[[int], Server]) -> None:
        self._home = home
        self._server_of = server_of
        self._made: dict[tuple[str, bool], CopyPair] = {}
        self._databases: list[Database] = []
        self._threads: list[WorkerThread] = []
        self._processes = Processes(home)

    def __call__(self, name: str, *, process: bool = False) -> CopyPair:
        if (name, process) not in self._made:
            self._made[name, process] = self._make(name, process)
        return self._made[name, process]

    def _make(self, name: str, process: bool) -> CopyPair:
        left = [self._server_of(version) for version in VERSIONS[name]]

        def database(*, pgq: bool = False) -> Database:
            self._databases.append(create_database(left.pop(0), pgq=pgq))
            return self._databases[-1]

        with Connections(name="tests") as sites:
            nodes = Nodes(database, sites)
            root = nodes.root()
            leaf = nodes.below(root, "leaf")
        config = self._home / f"{leaf.db.name}.toml"
        settings = {**SETTINGS, "db": leaf.dsn, "job_name": leaf.worker}
        text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in settings.items())
        config.write_text(f"[londiste]\n{text}\n")
        config.chmod(0o600)
        if not process:
            thread = WorkerThread(load(WorkerSettings, config))
            self._threads.append(thread)
            return CopyPair(root, leaf, config, thread)
        argv = [sys.executable, "-m", "londiste", "-c", str(config), "worker"]
        self._processes.start(leaf.worker, argv, {})
        return CopyPair(root, leaf, config, self._processes)

    def close(self) -> None:
        """Ends the workers and gives everything back."""
        assert not self._processes.close()
        for thread in self._threads:
            thread.close()
        for pair in self._made.values():
            pair.close()
        for each in self._databases:
            each.drop()


@pytest.fixture(scope="module")
def pairs(
    tmp_path_factory: pytest.TempPathFactory, server_of: Callable[[int], Server]
) -> Iterator[Pairs]:
    made = Pairs(tmp_path_factory.mktemp("pairs"), server_of)
    yield made
    made.close()


def prove(pair: CopyPair, seed: int, cases: int) -> None:
    """Runs so many random cases; hypothesis finds the smallest number of one that goes wrong."""
    # what both servers can have
    versions = [conn.info.server_version // 10000 for conn in (pair.source, pair.target)]

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=cases,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(st.integers(1, 2**40), st.sampled_from(TRIGGERS_OF_CASES))
    def run(number: int, trigger: str) -> None:
        # the compatible triggers have no forms, and tell images in the order of the triggers
        forms = FORMS if trigger == "capture" else ()
        case = random_case(number, forms=forms, version=min(versions), tame=not forms)
        try:
            pair.run(case, trigger=trigger)
        except Unsayable:
            return
        except (Differs, psycopg.Error, AssertionError) as error:
            raise Differs(f"case {number} by {trigger}: {error!s}\n\n{case}") from error

    run()
    assert pair.written > cases
    assert pair.damaged > cases / 2


def test_tables_that_are_copied_while_written_end_equal(pairs: Pairs) -> None:
    prove(pairs("15 to 18"), START, CASES or 1)


@pytest.mark.slow
def test_real_processes_do_the_same(pairs: Pairs) -> None:
    prove(pairs("15 to 18", process=True), START, 1)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(4))
def test_a_thousand_cases_copied_while_written_end_equal(pairs: Pairs, part: int) -> None:
    prove(pairs(list(VERSIONS)[part % 2]), START + 1000 * (part + 1), CASES or 250)
