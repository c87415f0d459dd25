"""Migration commands and daemons are killed: the same command, repeated, ends the same.

Nothing here names a step.  Each command is carried out once without an interruption, which says
how both databases have to stand in the end; then it is begun anew and killed at its first step,
then from the beginning at its second one, and so on.  All the while somebody writes in both.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.fixtures.cluster import Server, create_database
from tests.support.hints import plain
from tests.support.scenarios import writer_on_every_node
from tests.support.scenarios.forks import Fork
from tests.support.scenarios.harness import quoted
from tests.support.scenarios.killed_migration import (
    BACK,
    CAPTURED,
    COMMANDS,
    IN_STEP,
    LIMIT,
    NOTES,
    SCHEMA,
    SWITCH,
    Command,
    Killed,
)
from tests.support.scenarios.writer_on_every_node import Everywhere
from tests.support.waiting import wait_for

#: Where a command is killed; behind the last step there is no other one to be killed before.
BEFORE, AFTER = "plan.before-step", "plan.after-step"
#: Where a daemon of a command is killed.
DAEMONS = (
    "ticker.after-tick",
    "worker.after-next-batch",
    "worker.before-commit",
    "worker.after-commit",
    "worker.after-finish",
    "worker.after-state",
    "copy.registered",
    "copy.mid-chunk",
    "copy.all-chunks",
    "copy.wanna-sync",
    "copy.before-ok",
    "copy.after-ok",
)
#: Where a command that compares is killed besides.
COMPARE = ("compare.mid-range", "compare.mid-wave")


@pytest.fixture(scope="module")
def killed(
    tmp_path_factory: pytest.TempPathFactory, cluster: Server, cluster16: Server
) -> Iterator[Killed]:
    databases = {
        "old": create_database(cluster16, pgq=False),
        "new": create_database(cluster, pgq=False),
    }
    databases["old"].execute(SCHEMA)
    made = Killed(tmp_path_factory.mktemp("killed"), databases)
    yield made
    made.close()


#: Begins a command and lets something happen to it; False when it was over before.
Fault = Callable[[Killed, Command], bool]


def _killed_at(point: str, number: int) -> Fault:
    def fault(killed: Killed, command: Command) -> bool:
        fork = killed.begin(*command.argv, LONDISTE_CRASH=f"{point}:{number}")
        _until(killed, fork, command)
        if fork.code() is None:
            _stop(fork)
            assert not killed.mark.exists(), str(fork)
            return False
        assert fork.code() in (0, -signal.SIGKILL), str(fork)
        return fork.code() != 0

    return fault


def _daemon_killed_at(point: str) -> Fault:
    """The command itself has to get to its end."""

    def fault(killed: Killed, command: Command) -> bool:
        fork = killed.begin(*command.argv, LONDISTE_CRASH=point)
        _until(killed, fork, command)
        if fork.code() is None:
            _stop(fork)
        else:
            assert fork.code() == 0, str(fork)
        assert killed.mark.exists(), f"never at {point}\n{fork}"
        return True

    return fault


def _those_beside_it_killed_at(point: str, number: int) -> Fault:
    """While the command stands still, ``start`` is killed, whose daemons it relies on."""

    def fault(killed: Killed, command: Command) -> bool:
        beside = _beside(killed)
        fork = killed.begin(
            *command.argv, LONDISTE_CRASH=f"{point}:{number}", LONDISTE_CRASH_SIGNAL="STOP"
        )
        wait_for(
            lambda: killed.mark.exists() or fork.code() is not None,
            timeout=LIMIT,
            what=f"step {number}\n{fork}",
        )
        met = killed.mark.exists()
        beside.kill()
        another = killed.begin("start")
        fork.go_on()
        code = fork.wait(LIMIT)
        assert code in (0, 3, 6), str(fork)
        assert code == 0 or ("hint:" in fork.err and "Traceback" not in fork.err), str(fork)
        _stop(another)
        return met

    return fault


def _beside(killed: Killed) -> Fork:
    """``start``, whose daemons are at work."""
    fork = killed.begin("start")
    wait_for(lambda: not killed.status()["missing"], timeout=LIMIT, what=f"the daemons\n{fork}")
    return fork


def _stop(fork: Fork) -> None:
    fork.send(signal.SIGTERM)
    # 130: its daemons took long to end, on a busy machine.  By the signal: it was only beginning.
    assert fork.wait(LIMIT) in (0, 130, -signal.SIGTERM), str(fork)


def _until(killed: Killed, fork: Fork, command: Command) -> None:
    """Until a command has ended; one that stays: until the move stands where it leads to."""
    new = killed.databases["new"]

    def reached() -> bool:
        if fork.code() is not None:
            return True
        if not command.stays:
            return False
        asked = "select count(*) from pg_catalog.pg_class where relname = 'node_info'"
        if not new.value(asked):
            return False
        return bool(
            new.value("select count(*) from pgq_node.node_info where node_type = 'root'")
            and not any(d.value(NOTES) for d in killed.databases.values())
        )

    wait_for(reached, timeout=LIMIT, what=f"the end of {command.argv}\n{fork}")


def _once(killed: Killed, command: Command, fault: Fault | None = None) -> dict[str, Any] | None:
    """The command from the beginning; how all stands in the end.  None: there was no such fault."""
    killed.set_back(command.before)
    old, new = killed.databases["old"], killed.databases["new"]
    # What is no part of a move any more, or not yet, is an ordinary database.
    both = command.phase != "not begun"
    who = (
        {"old": old, "new": new} if both else {command.roots[0]: killed.databases[command.roots[0]]}
    )
    with Everywhere(who, pause=0.01, once={"new": CAPTURED}) as writer:
        writer.wait(5, on=command.roots[0])
        if fault is not None and not fault(killed, command):
            return None
        again = killed.begin(*command.argv)
        _until(killed, again, command)
        writer.wait(5, on=command.roots[-1])
        if command.stays:
            _stop(again)
        else:
            assert again.code() == 0, str(again)
        writer.stop()
        assert writer.history() == list(command.roots), "two that take writes, or another"
    confirmed, may_be = writer.confirmed(), writer.confirmed() | writer.unknown()
    assert killed.status()["phase"] == command.phase
    if both:
        _in_step(killed)
    for name, database in killed.databases.items():
        found = writer_on_every_node.rows(database)
        assert len(found) == len(set(found)), f"{name}: rows that came twice"
        assert set(found) <= may_be, f"{name}: {sorted(set(found) - may_be)[:9]}"
        if name in who:
            assert confirmed <= set(found), f"{name}: lost {sorted(confirmed - set(found))[:9]}"
    return killed.stands()


def _in_step(killed: Killed) -> None:
    """Both hold the same rows, and their daemons have nothing left to do."""
    daemon = killed.begin("start")

    def settled() -> bool:
        assert daemon.code() is None, str(daemon)
        found = [row for rows in killed.stands().values() for row in rows]
        # Of a worker: it has seen what its node is now, and met no error since.
        return all(row[4] and not row[5] for row in found if row[0] == "reads") and all(
            row[2] in (None, "ok") for row in found if row[0] == "table"
        )

    wait_for(settled, timeout=LIMIT, what=f"workers that have seen the change\n{daemon}")
    answer = json.loads(killed.do("verify", "--timeout", "120", "--json").out)
    assert answer["equal"], answer
    assert len(answer["tables"]) == 3
    _stop(daemon)


def _same(
    killed: Killed, command: Command, fault: Fault, wanted: dict[str, Any], when: str
) -> bool:
    """Whether there was such a fault; AssertionError when it ended in another place."""
    found = _once(killed, command, fault)
    for name in wanted if found is not None else ():
        assert found is not None
        less, more = (
            [row for row in one[name] if row not in two[name]]
            for one, two in ((wanted, found), (found, wanted))
        )
        assert not less and not more, f"{when}, at {name}: not {less}, but {more}"
    return found is not None


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("name", list(COMMANDS))
def test_a_command_that_is_killed_at_a_step_ends_the_same_when_given_again(
    name: str, killed: Killed
) -> None:
    command, began, number = COMMANDS[name], time.monotonic(), 1
    wanted = _once(killed, command)
    assert wanted is not None
    while _same(killed, command, _killed_at(BEFORE, number), wanted, f"killed before {number}"):
        number += 1
    assert number > 2
    # Behind the last one as well.
    assert _same(killed, command, _killed_at(AFTER, number - 1), wanted, "killed after the last")
    for point in COMPARE if name == "run" else ():
        assert _same(killed, command, _killed_at(point, 1), wanted, f"killed at {point}")
    print(f"CASE {name}: {number} kills, {time.monotonic() - began:.0f} s")


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("name", ["start", "run"])
def test_a_daemon_that_is_killed_is_started_again_by_the_command(name: str, killed: Killed) -> None:
    command, began = COMMANDS[name], time.monotonic()
    wanted = _once(killed, command)
    assert wanted is not None
    for point in DAEMONS:
        assert _same(killed, command, _daemon_killed_at(point), wanted, f"killed at {point}")
    print(f"CASE {name}: {len(DAEMONS)} daemons, {time.monotonic() - began:.0f} s")


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("name", ["switch", "back"])
def test_a_switch_whose_daemons_are_killed_at_a_step_ends_the_same(
    name: str, killed: Killed
) -> None:
    command, began, number = COMMANDS[name], time.monotonic(), 1
    wanted = _once(killed, command)
    assert wanted is not None
    while _same(
        killed, command, _those_beside_it_killed_at(BEFORE, number), wanted, f"at {number}"
    ):
        number += 1
    assert number > 2
    print(f"CASE {name}: {number - 1} times, {time.monotonic() - began:.0f} s")


@pytest.mark.slow
def test_a_change_that_is_no_switch_is_told_and_refuses_a_switch(killed: Killed) -> None:
    killed.set_back((IN_STEP,))
    refused = killed.begin("switch", "--rollback")
    assert refused.wait(LIMIT) == 3, str(refused)
    assert "hint: londiste migrate status" in plain(refused.err)
    settings = killed.directory / "old.toml"
    dsn = quoted(killed.databases["old"].dsn)
    settings.write_text(f'[londiste]\ndb = {dsn}\nqueue_name = "migrate"\n')
    dropping = ("drop-node", "new", "--ignore-unreachable", "--drop-consumers")
    fork = killed.forks.run(settings, *dropping, LONDISTE_CRASH="plan.before-step:2")
    assert fork.code() == -signal.SIGKILL, str(fork)
    seen = killed.status()
    assert seen["phase"] == "changing", seen
    assert "londiste drop-node new" in seen["next"]
    for argv in (SWITCH, ("switch", "--rollback"), ("finish", "--abandon")):
        refused = killed.begin(*argv)
        assert refused.wait(LIMIT) == 3, str(refused)
        assert "hint: finish it: londiste drop-node new" in plain(refused.err), str(refused)
    # What finishes it is what the hint says, and the move begins anew.
    fork = killed.forks.run(settings, *dropping)
    assert fork.code() == 0, str(fork)
    assert killed.status()["phase"] == "setting up"


@pytest.mark.slow
def test_a_switch_that_is_done_says_how_to_return(killed: Killed) -> None:
    killed.set_back((IN_STEP,))
    beside = _beside(killed)
    roots = []
    # From the one that takes writes over the moment in which nobody does to the other one.
    for step in range(1, 9):
        fork = killed.begin(*SWITCH, LONDISTE_CRASH=f"{AFTER}:{step}")
        assert fork.wait(LIMIT) == -signal.SIGKILL, f"after {step}\n{fork}"
        seen = killed.status()
        roots += [seen["root"]] if seen["root"] not in roots else []
        if seen["root"] == "new":
            break
    assert roots == ["old", None, "new"]
    assert seen["phase"] == "switching"
    assert "finish it: londiste migrate switch" in seen["next"]
    refused = killed.begin("switch", "--rollback")
    assert refused.wait(LIMIT) == 3, str(refused)
    assert "migrate switch finishes it; then londiste migrate back" in plain(refused.err), str(
        refused
    )
    killed.do(*SWITCH)
    beside.kill()


@pytest.mark.slow
def test_a_table_that_is_made_after_the_switch_is_added_and_taken_back(killed: Killed) -> None:
    killed.set_back((IN_STEP, SWITCH))
    old, new = killed.databases["old"], killed.databases["new"]
    new.execute("create table public.later (id serial primary key, v text)")
    new.execute("insert into public.later (v) values ('new')")
    refused = killed.begin(*BACK)
    assert refused.wait(LIMIT) == 3, str(refused)
    assert "public.later" in refused.err and "add them with londiste migrate start" in plain(
        refused.err
    ), str(refused)
    assert "public.later" in killed.do("start", "--dry-run").out
    killed.do("start", "--no-daemons")
    refused = killed.begin(*BACK)
    assert refused.wait(LIMIT) == 3, str(refused)
    assert "hint: run londiste migrate start until" in plain(refused.err), str(refused)
    killed.do("start", "--until-ready")
    state = "select merge_state from londiste.table_info where table_name = 'public.later'"
    assert old.value(state) == "ok"
    beside = _beside(killed)
    killed.do(*BACK)
    old.execute("insert into public.later (v) values ('old')")
    answer = json.loads(killed.do("verify", "--json").out)
    assert answer["equal"] and len(answer["tables"]) == 4, answer
    assert old.execute("select * from public.later order by 1") == [(1, "new"), (2, "old")]
    beside.kill()
