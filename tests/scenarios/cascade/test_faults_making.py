"""Creating, pausing, grouping and rejoining nodes during a fault of another node.

As ``test_faults``: each command ends in time and says why, and the same one finishes it when all is
well again; then everything stands as it does without a fault.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg
import pytest

from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import Database, create_database
from tests.support.lines import Line
from tests.support.scenarios.faulty_cascade import (
    LIMIT,
    PATIENCE,
    Fault,
    Lined,
    begin,
    disturbed,
    lined_up,
    said,
    wrong,
)
from tests.support.scenarios.interrupting import Operation
from tests.support.scenarios.quick_cascade import QuickCascade

#: Below n2, in a database of its own; the steps at the root come first.
MAKING = {
    kind: Operation((f"create-{kind}", "n5", "LOCATION", "--provider", "PROVIDER"), at="n3")
    for kind in ("branch", "leaf")
}
GROUPING = Operation(("sync-watermark", "n4", "--node", "n2"), at="n3")
BACK = Operation(("resurrect", "--node", "n1", "--undo"), at="n3")


def _around(part: float, *nodes: str) -> list[Fault]:
    """Everything that can be wrong with these nodes, from before and at a part of the steps."""
    return [
        Fault(kind, node, at)
        for node in nodes
        for kind, at in (
            ("silent", 0.0),
            ("silent", part),
            ("hung", part),
            ("down", 0.0),
            ("locked", 0.0),
        )
    ]


MAKING_FAULTS = [*_around(0.2, "n1"), *_around(0.5, "n2"), Fault("silent", "n5", 0.8)]
#: The new root, and the one that comes back.
BACK_FAULTS = [*_around(0.5, "n2"), Fault("silent", "n1", 0.5), Fault("hung", "n1", 0.5)]


def _id(value: object) -> str:
    return f"{value.kind}-{value.node}-{value.part:g}" if isinstance(value, Fault) else str(value)


@pytest.fixture(scope="module")
def lined(
    tmp_path_factory: pytest.TempPathFactory, own_servers: Callable[[str], Cluster]
) -> Iterator[Lined]:
    with lined_up(tmp_path_factory.mktemp("making"), own_servers) as made:
        yield made


@pytest.fixture
def bare(lined: Lined) -> Iterator[Callable[[], Database]]:
    """Makes a database on C that is no node, with a line to it: that of n5."""
    made: list[Database] = []

    def make() -> Database:
        made.append(create_database(lined.cascade.nodes["n4"].database.cluster, pgq=True))
        if "n5" in lined.lines:
            lined.lines["n5"].close()
        lined.lines["n5"] = Line(made[-1].dsn)
        return made[-1]

    yield make
    if "n5" in lined.lines:
        lined.lines.pop("n5").close()
    for database in made:
        database.drop()


@dataclass(frozen=True)
class Attempt:
    """A command, and how everything stands afterwards."""

    operation: Operation
    stands: Callable[[], Any]
    env: dict[str, str] = field(default_factory=dict)


_wanted: dict[str, tuple[Any, int]] = {}


def _go(
    lined: Lined,
    name: str,
    fault: Fault,
    attempt: Callable[[], Attempt],
    first: Callable[[], None] = lambda: None,
) -> None:
    """Carries it out once without the fault, begins anew, and with the fault, to its end.

    first -- what has happened before.
    """
    cascade = lined.cascade
    if name not in _wanted:
        one = attempt()
        begin(lined, one.operation)
        first()
        shown = cascade.do(one.operation.at, *one.operation.argv, "--json", **_env(one.env))
        _wanted[name] = _settled(cascade, one.stands), len(_done(shown.out))
    wanted, steps = _wanted[name]
    one = attempt()
    begin(lined, one.operation)
    first()
    with wrong(lined, fault) as happen:
        fork, seconds = disturbed(cascade, one.operation, fault, steps, happen, **one.env)
    print(f"CASE {name} {fault} {seconds:.1f} s, {fork.code()}, {said(fork)}\n{fork.err}")
    assert seconds < LIMIT, str(fork)
    if fork.code() and fault.kind != "locked":
        assert fault.node in fork.err or "127.0.0.1" in fork.err, str(fork)
    again = cascade.londiste(one.operation.at, *one.operation.argv, **_env(one.env))
    assert again.code() == 0, f"first {fork}\nthen {again}\n{cascade.report()}"
    cascade.converge()
    try:
        cascade.wait(lambda: one.stands() == wanted, f"how it stands otherwise, after {fork}")
    except AssertionError as error:
        raise AssertionError(f"{error}\nwanted {wanted}\nnow    {one.stands()}") from None


def _env(env: dict[str, str]) -> dict[str, Any]:
    return dict(env)


def _done(text: str) -> list[str]:
    found = json.loads(text)
    steps: list[str] = found["done"]
    return steps


def _settled(cascade: QuickCascade, stands: Callable[[], Any]) -> Any:
    """How it stands, once it stays so while the root ticks on."""
    before, now = None, stands()
    while now != before:
        cascade.converge()
        before, now = now, stands()
    return now


@pytest.mark.slow
@pytest.mark.parametrize("fault", MAKING_FAULTS, ids=_id)
@pytest.mark.parametrize("kind", MAKING)
def test_a_node_is_made_with_something_wrong(
    kind: str, fault: Fault, lined: Lined, bare: Callable[[], Database]
) -> None:
    own = "select array[node_type, node_name, worker_name] from pgq_node.node_info"
    reads = "select array[provider_node, consumer_name] from pgq_node.local_state"

    def attempt() -> Attempt:
        database = bare()
        words = {"LOCATION": database.dsn, "PROVIDER": lined.lines["n2"].dsn}
        argv = tuple(words.get(word, word) for word in MAKING[kind].argv)

        def stands() -> Any:
            digest = repr(lined.cascade.digest()).replace(database.name, "n5")
            return digest, database.value(own), database.value(reads)

        operation = replace(MAKING[kind], argv=(*argv, "--worker", "n5_worker"))
        return Attempt(operation, stands, {"LONDISTE_DB": lined.lines["n5"].dsn})

    _go(lined, kind, fault, attempt)


@pytest.mark.slow
@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_a_root_is_made_while_its_server_falls_silent(
    part: float, lined: Lined, bare: Callable[[], Database]
) -> None:
    def attempt() -> Attempt:
        database = bare()
        operation = Operation(("create-root", "n7", database.dsn, "--worker", "w"), at="n3")
        env = {"LONDISTE_DB": lined.lines["n5"].dsn, "LONDISTE_QUEUE_NAME": "other"}
        own = "select array[node_type, node_name, worker_name] from pgq_node.node_info"
        return Attempt(operation, lambda: database.value(own), env)

    _go(lined, "root", Fault("silent", "n5", part), attempt)


@pytest.mark.slow
@pytest.mark.parametrize("fault", _around(0.5, "n2"), ids=_id)
def test_a_group_is_given_with_something_wrong(fault: Fault, lined: Lined) -> None:
    cascade = lined.cascade
    attrs = "select node_attrs from pgq_node.node_info"
    _go(
        lined,
        "sync-watermark",
        fault,
        lambda: Attempt(GROUPING, lambda: cascade.look(cascade.nodes["n2"], attrs)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("fault", BACK_FAULTS, ids=_id)
def test_a_lost_root_comes_back_with_something_wrong(fault: Fault, lined: Lined) -> None:
    cascade = lined.cascade

    def first() -> None:
        server = cascade.nodes["n1"].database.cluster
        server.stop("immediate")
        cascade.do("n3", "takeover", "n1", "--failover", "--node", "n2")
        server.up()
        closed = "select queue_disable_insert from pgq.queue"
        cascade.wait(lambda: cascade.look(cascade.nodes["n1"], closed), "n1 to refuse events")

    _go(lined, "resurrect", fault, lambda: Attempt(BACK, cascade.digest), first)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["down", "silent", "locked"])
def test_a_worker_is_paused_and_let_go_on_with_something_wrong(kind: str, lined: Lined) -> None:
    cascade, node = lined.cascade, lined.cascade.nodes["n2"]
    begin(lined, GROUPING)
    for word in ("pause", "resume"):
        if kind == "locked":
            with psycopg.connect(node.database.dsn) as conn:
                conn.execute("select from pgq_node.local_state for update")
                fork = cascade.forks.start(
                    cascade.nodes["n3"].config, word, "--node", "n2", **PATIENCE
                )
                assert fork.wait(LIMIT) == 6, str(fork)
        else:
            with wrong(lined, Fault(kind, "n2")) as happen:
                happen()
                fork = cascade.forks.start(
                    cascade.nodes["n3"].config, word, "--node", "n2", **PATIENCE
                )
                assert fork.wait(LIMIT) == 6, str(fork)
        print(f"CASE {word} {kind}\n{fork.err}")
        said(fork)
        assert "n2" in fork.err, str(fork)
        done = cascade.do("n3", word, "--node", "n2")
        assert "already" not in done.err
    cascade.converge()
