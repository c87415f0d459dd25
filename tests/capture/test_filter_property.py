"""Rows that enter and leave a row filter: the target has the rows that the condition is true for.

Random operations on few keys, so that each goes in and out many times, under every trigger, in
batches of any size, written in parts of any size.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from londiste.handlers.base import TableRules
from londiste.handlers.table_rules import HandlerAttrs, wants
from londiste.pgq import batches
from londiste.replication.apply.routing import ByFilter, Route, RoutingTable
from londiste.replication.tablesync.states import By
from tests.capture.cases import SCHEMA
from tests.capture.pair import Pair
from tests.fixtures.cascade import QUEUE

TABLE = f"{SCHEMA}.t"
WHERE = "region <> 'us' and (doc->>'hidden') is null"
TRIGGERS = {
    "row": "C",
    "statement": "C",
    "jsontriga": "J",
    "logutriga": "L",
}
MADE = f"""
create table {TABLE} (
    id int primary key, region text, u int unique, doc jsonb default '{{}}', secret text
)
"""

keys = st.integers(1, 9)
regions = st.sampled_from(["'eu'", "'us'", "'asia'", "null"])
uniques = st.one_of(st.none(), st.integers(1, 6)).map(lambda v: "null" if v is None else str(v))
docs = st.sampled_from(["'{}'", "'{\"hidden\": true}'", "null"])
operations = st.one_of(
    st.builds(
        "insert into t values ({}, {}, {}, {}, 'secret')".format, keys, regions, uniques, docs
    ),
    st.builds("update t set region = {} where id = {}".format, regions, keys),
    st.builds("update t set region = {} where id between {} and {}".format, regions, keys, keys),
    st.builds("update t set u = {}, region = {} where id = {}".format, uniques, regions, keys),
    st.builds("update t set doc = {} where id = {}".format, docs, keys),
    st.builds("update t set id = {} where id = {}".format, keys, keys),
    st.builds("update t set id = 10 - id where id between {} and {}".format, keys, keys),
    st.builds("delete from t where id = {}".format, keys),
    st.builds("delete from t where region = {}".format, regions),
    st.builds(
        "insert into t select i, {}, null, {} from generate_series({}, 9) i on conflict (id)"
        " do update set region = excluded.region, doc = null".format,
        regions,
        docs,
        keys,
    ),
    st.builds(
        "with gone as (delete from t where id < {} returning *) insert into t select id, {}, u"
        " from gone".format,
        keys,
        regions,
    ),
    st.just("truncate t"),
    st.sampled_from(["begin", "commit", "commit"]),
)
#: What is done, and whether a tick follows: without, all is one batch, and nothing was here before.
ticked = st.tuples(operations, st.booleans())

#: In and out of the filter, each in a batch of its own.
PLAIN = [
    ("insert into t values (1, 'eu', 1, null, 'secret'), (2, 'us', 2, null, 'secret')", True),
    ("update t set region = case region when 'us' then 'eu' else 'us' end", True),
    ("update t set u = 3 where id = 2; update t set u = 2, region = 'eu' where id = 1", True),
]


class FilteredPair:
    """A pair of which the target keeps some rows and columns only."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.operations = 0

    def run(self, trigger: str, steps: list[str], chosen: TableRules, flush_bytes: int) -> None:
        pair = self.pair
        pair.app.execute("rollback")
        if pair.target.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            pair.target.execute("rollback")
        for conn in (pair.source, pair.target):
            conn.execute("set client_min_messages = warning")
            conn.execute(f"drop schema if exists {SCHEMA} cascade; create schema {SCHEMA}".encode())
            conn.execute(MADE.encode())
        pair._skip()
        form = ["form=" + trigger] if TRIGGERS[trigger] == "C" else []
        pair.source.execute(
            "select londiste.create_trigger(%s, %s, %s, %s, 'root')",
            [QUEUE, TABLE, [*form, "tgflags=" + TRIGGERS[trigger]], TABLE],
        )
        pair._runner = pair._new_runner(flush_bytes)
        pair.app.execute(f"set search_path = {SCHEMA}".encode())
        opened = False
        for step in [*steps, "commit"]:
            self.operations += 1
            if step == "tick":
                pair.tick()
            elif step == "begin" and not opened:
                pair.app.execute("begin")
                opened = True
            elif step == "commit" and opened:
                pair.app.execute("commit")
                opened = False
            elif step not in {"begin", "commit"}:
                try:
                    with pair.app.transaction():
                        pair.app.execute(step.encode())
                except psycopg.errors.IntegrityError:
                    continue
                except psycopg.DatabaseError as error:
                    # The compatible triggers refuse another key.
                    assert "key" in str(error).lower(), error
                    assert TRIGGERS[trigger] != "C"
        pair.tick()
        self.replay(chosen)
        columns = [c for c in ("id", "region", "u", "doc", "secret") if chosen.keeps(c)]
        rows = f"select {', '.join(columns)} from {TABLE} {{}} order by id"
        there = pair.source.execute(rows.format(f"where {WHERE}").encode()).fetchall()
        here = pair.target.execute(rows.format("").encode()).fetchall()
        assert here == there, (trigger, steps)
        if not chosen.keeps("secret"):
            assert (
                pair.target.execute(
                    f"select from {TABLE} where secret is not null".encode()
                ).rowcount
                == 0
            )

    def replay(self, chosen: TableRules) -> None:
        pair = self.pair
        (name,) = pair._tables()
        route = Route(name, name, None, ByFilter(), chosen)
        while (batch := batches.next_batch(pair.source, QUEUE, pair.worker)) is not None:
            pair._runner.run(batch, RoutingTable(By.MAIN, {name: route}))
            batches.finish_batch(pair.source, batch.id)


@pytest.fixture
def filtered(pair: Pair) -> Iterator[FilteredPair]:
    yield FilteredPair(pair)
    # Other tests of the module make tables of their own.
    pair.app.execute("reset all")


CHOICES = [HandlerAttrs(where=WHERE), HandlerAttrs(where=WHERE, skip_columns=("secret",))]


def prove(filtered: FilteredPair, examples: int, shortest: int, least: int) -> None:
    cases = st.tuples(
        st.sampled_from(list(TRIGGERS)),
        st.lists(ticked, min_size=shortest, max_size=60),
        st.sampled_from(CHOICES),
        st.sampled_from([64 << 20, 2000]),
    )

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(cases)
    @example(("row", PLAIN, CHOICES[0], 64 << 20))
    @example(("statement", PLAIN, CHOICES[1], 64 << 20))
    @example(("jsontriga", PLAIN, CHOICES[0], 64 << 20))
    @example(("logutriga", PLAIN, CHOICES[1], 64 << 20))
    def converges(case: tuple[str, list[tuple[str, bool]], HandlerAttrs, int]) -> None:
        trigger, pairs, choice, flush_bytes = case
        steps = [step for one, tick in pairs for step in ((one, "tick") if tick else (one,))]
        filtered.run(trigger, steps, wants(choice.attrs()), flush_bytes)

    converges()
    assert filtered.operations >= least


def test_random_operations_in_and_out_of_a_filter_converge(filtered: FilteredPair) -> None:
    prove(filtered, 12, 10, 200)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_thousand_operations_in_and_out_of_a_filter_converge(filtered: FilteredPair) -> None:
    prove(filtered, 400, 25, 10_000)
