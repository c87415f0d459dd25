"""A cascade whose nodes are switched at random by interrupted commands.

Its number decides what happens in a life: rows, ticks, batches, every command that changes the
cascade, nodes that are lost and come back (``lives``, ``course``).
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.fixtures.cluster import Server
from tests.support.scenarios.cascade_lives import Life
from tests.support.scenarios.harness import QUEUE
from tests.support.scenarios.in_process import Stage, patched
from tests.support.scenarios.random_walk import BLOCK, LIMITS

SCHEMA = """
create table public.a (id int primary key, v text);
create table public.b (x int, y int, v text, primary key (x, y));
create table public.c (id bigserial primary key, v text);
"""


def _stage(directory: Any, server: Server) -> Stage:
    """n1 (root) -> n2 -> n4 (leaf), n1 -> n3 -> n5 (leaf), and a spare database; saved."""
    stage = Stage(directory, server)
    for _ in range(6):
        stage.place(SCHEMA)
    n1, n2, n3, n4, n5, _spare = stage.places
    for place, kind, provider in (
        (n1, "root", None),
        (n2, "branch", n1),
        (n3, "branch", n1),
        (n4, "leaf", n2),
        (n5, "leaf", n3),
    ):
        place.name = f"n{place.slot + 1}"
        more = ["--provider", provider.database.dsn] if provider else []
        for argv in (
            [f"create-{kind}", place.name, place.database.dsn, *more],
            ["add-table", "public.a", "--trigger-arg", "backup"],
            ["add-table", "public.b", "public.c"],
        ):
            if argv[0] == "add-table" and provider is not None:
                argv.append("--expect-sync")
            if kind == "leaf" and "--trigger-arg" in argv:
                argv = [w for w in argv if w not in {"--trigger-arg", "backup"}]
            answer = stage.command(place, *argv)
            assert answer.code == 0, answer
    for _ in range(10):
        n1.rows("select pgq.force_tick(%s)", QUEUE)
        n1.rows("select pgq.ticker()")
        stage.meanwhile()
    stage.save()
    return stage


@pytest.fixture(scope="module")
def stage(
    tmp_path_factory: pytest.TempPathFactory, own_servers: Callable[..., Any]
) -> Iterator[Stage]:
    server = own_servers("machine", settings={"max_connections": "200"})
    made = _stage(tmp_path_factory.mktemp("machine"), server)
    with patched(made):
        yield made


def _run(stage: Stage, lives: range, steps: int) -> None:
    told: collections.Counter[str] = collections.Counter()
    wrong = []
    for number in lives:
        try:
            Life(stage, told).live(number, steps)
        except AssertionError as error:
            wrong.append(f"life {number}: {error}")
            print(wrong[-1])
    print(dict(sorted(told.items())))
    assert not wrong, "\n".join(wrong)
    assert told["runs"] == len(lives)


@pytest.mark.slow
def test_a_few_random_lives_of_a_cascade(stage: Stage) -> None:
    _run(stage, range(2), 20)


def test_a_life_with_all_that_matters(stage: Stage) -> None:
    """In a fixed order, since few random lives may leave something out."""
    told: collections.Counter[str] = collections.Counter()
    life = Life(stage, told)
    life.begin()
    life.write(1)
    life.tick()
    # n3 is ahead of n2, which takes over; the root has rows that are in no tick.
    life.work(2, 4)
    life.write(2)
    life.lose(0, True)
    life.write(3)
    life.takeover_of_the_dead(0, False, (5, True), 4)
    life.again(5, False)
    life.write(6)
    life.come_back()
    life.resurrect(0, True, (3, True), 7)
    life.again(8, False)
    life.ledger.observe()
    assert not life.ledger.away, life.log
    life.settle()
    life.switchover(2, 0, True, (9, True), 9)
    life.again(10, False)
    life.write(11)
    life.worker_dies(1, "worker.after-commit")
    life.switchover(0, 0, False, (12, False), 12)
    life.again(13, True)
    life.everybody_works(14)
    with life.telling():
        life.ledger.check()
        life.finish()
    assert told["roots"] >= 3, (told, life.log)
    assert told["takeover interrupted"] and told["resurrect interrupted"], told
    assert told["switchover interrupted"], told


@pytest.mark.slow
def test_a_lost_root_has_one_successor(stage: Stage) -> None:
    life = Life(stage, collections.Counter())
    life.begin()
    life.lose(0, True)
    takeover = ("takeover", "n1", "--failover", *LIMITS)
    life.must(stage.places[1], *takeover)
    refused = life.give(stage.places[2], *takeover)
    assert refused is not None and refused.code == 3
    assert "node n2 is the root" in refused.err
    life.must(stage.places[1], *takeover)
    with life.telling():
        life.finish()


@pytest.mark.slow
def test_a_lost_root_comes_back_when_its_successor_was_replaced(stage: Stage) -> None:
    """The command, given again, made the new root's predecessor forget the events it kept."""
    life = Life(stage, collections.Counter())
    life.begin()
    life.write(1)
    life.lose(0, True)
    takeover = ("takeover", "n1", "--failover", *LIMITS)
    life.must(stage.places[1], *takeover)
    life.must(stage.places[2], "switchover", "--to", "n3", *LIMITS, *BLOCK)
    for more in ((), ("--dead-branch",)):
        refused = life.give(stage.places[1], *takeover, *more)
        assert refused is not None and refused.code == 3
        assert ("n2 keeps events for it" in refused.err) is bool(more)
    life.must(stage.places[2], *takeover)
    with life.telling():
        life.finish()
    assert not life.ledger.away


@pytest.mark.slow
def test_a_lost_root_comes_back_to_nodes_with_other_names(stage: Stage) -> None:
    life = Life(stage, collections.Counter())
    life.begin()
    life.write(1)
    life.lose(0, True)
    n1, n2, *_ = stage.places
    life.must(n2, "takeover", "n1", "--failover", *LIMITS)
    life.must(n2, "rename-node", "n2", "two")
    life.must(n2, "rename-node", "n4", "four")
    life.must(n2, "change-provider", "--node", "n3", "--provider", "two", *LIMITS)
    life.must(n2, "change-provider", "--node", "n5", "--provider", "two", *LIMITS)
    life.must(n2, "drop-node", "n3")
    life.notice_dropped()
    life.read_names()
    life.come_back()
    life.take_back(0, ["--undo", "--resync"], None, 0)
    with life.telling():
        assert not life.ledger.away
        names = "select node_name from pgq_node.node_location order by 1"
        assert n1.rows(names) == [("four",), ("n1",), ("n5",), ("two",)]
        assert n1.value("select provider_node from pgq_node.local_state") == "two"
        life.finish()


def test_a_table_that_is_removed_during_a_switchover_is_missed(stage: Stage) -> None:
    """What is written to it on the new root would not be captured."""
    life = Life(stage, collections.Counter())
    life.begin()
    n1, n2, *_ = stage.places
    life.give(n1, "switchover", "--to", "n2", *LIMITS, *BLOCK, fault=(6, True))
    assert life.pending is not None
    life.must(n2, "remove-table", "public.b")
    life.write(1)
    refused = life.give(n1, "switchover", "--to", "n2", *LIMITS)
    assert refused is not None and refused.code == 3
    assert "table public.b is not replicated on n2" in refused.err
    assert "--rollback" in refused.err
    life.must(n1, "switchover", "--to", "n2", "--rollback")
    life.must(n2, "add-table", "public.b")
    life.pending = None
    with life.telling():
        life.finish()


@pytest.mark.slow
def test_an_old_root_has_no_event_of_its_own(stage: Stage) -> None:
    """Its worker publishes what it knows in the midst of a switchover."""
    told: collections.Counter[str] = collections.Counter()
    life = Life(stage, told)
    life.begin()
    for new, seed in (("n2", 3556), ("n3", 65535)):
        life.must(stage.places[1], "switchover", "--to", new, *LIMITS, *BLOCK, seed=seed)
    with life.telling():
        life.finish()
    assert told["roots"] == 3


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", [100, 150, 200, 250])
def test_two_hundred_random_lives_of_a_cascade(stage: Stage, first: int) -> None:
    _run(stage, range(first, first + 50), 30)
