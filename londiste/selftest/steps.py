"""What a self-test does to replication: faults that need no more rights, and commands."""

from __future__ import annotations

import functools
import json
import signal
from collections.abc import Callable

from londiste.db.connection import session
from londiste.orchestration.daemons import TICKER
from londiste.selftest.pair import BURST, NAME, SESSIONS, TOKEN
from londiste.selftest.programs import WORKER
from londiste.selftest.registry import Registry
from londiste.selftest.stage import NotPossible, Stage

STEPS = Registry()


@STEPS.add("kill the worker")
def kill_worker(stage: Stage) -> None:
    stage.programs.send(WORKER, signal.SIGKILL)
    stage.passes(stage.chance.random() / 2)


@STEPS.add("freeze the worker")
def freeze_worker(stage: Stage) -> None:
    _freeze(stage, functools.partial(stage.programs.send, WORKER))


@STEPS.add("kill the ticker")
def kill_ticker(stage: Stage) -> None:
    _require_ticker(stage)
    stage.programs.send(TICKER, signal.SIGKILL)
    stage.passes(stage.chance.random() / 2)


@STEPS.add("freeze the ticker")
def freeze_ticker(stage: Stage) -> None:
    _require_ticker(stage)
    _freeze(stage, functools.partial(stage.programs.send, TICKER))


def _require_ticker(stage: Stage) -> None:
    if TICKER not in stage.programs.daemons:
        raise NotPossible("another process runs the ticker of the source")


def _freeze(stage: Stage, send: Callable[[signal.Signals], None]) -> None:
    send(signal.SIGSTOP)
    try:
        stage.passes(1 + stage.chance.random())
    finally:
        send(signal.SIGCONT)


@STEPS.add("kill all programs")
def kill_all(stage: Stage) -> None:
    """As when the host of the programs is lost."""
    for name in stage.programs.daemons:
        stage.programs.send(name, signal.SIGKILL)
    stage.passes(stage.chance.random() / 2)


@STEPS.add("kill a copy")
def kill_copy(stage: Stage) -> None:
    """The process that copies a table again."""
    pid = _copying(stage)
    stage.programs.send_to_copy(pid, signal.SIGKILL)


@STEPS.add("freeze a copy")
def freeze_copy(stage: Stage) -> None:
    pid = _copying(stage)
    _freeze(stage, functools.partial(stage.programs.send_to_copy, pid))


def _copying(stage: Stage) -> int:
    """Has a table copied again; the id of the copy process, in the midst of its work."""
    before = len(stage.programs.copies())
    stage.command("resync", _some_table(stage))

    def started() -> bool:
        stage.revive()
        return len(stage.programs.copies()) > before

    if not stage.until(started, 30):
        raise NotPossible("the worker started no copy within 30 s")
    stage.passes(stage.chance.random() * 0.5)
    return stage.programs.copies()[-1]


@STEPS.add("end the sessions")
def end_sessions(stage: Stage) -> None:
    """Those of worker and copies, in both databases."""
    for conn in (stage.source, stage.target):
        conn.execute(f"select pg_catalog.pg_terminate_backend(pid){SESSIONS}".encode())
    stage.passes(0.1)


@STEPS.add("cancel statements")
def cancel_statements(stage: Stage) -> None:
    """Those that worker and copies execute, several times."""
    for _ in range(10):
        for conn in (stage.source, stage.target):
            conn.execute(
                f"select pg_catalog.pg_cancel_backend(pid){SESSIONS} and state = 'active'".encode()
            )
        stage.passes(0.1)


@STEPS.add("lock a table")
def lock_table(stage: Stage) -> None:
    """For longer than the worker waits for a lock."""
    with session(stage.pair.target.dsn, name=NAME) as conn, conn.transaction():
        conn.execute(f"lock table {TOKEN} in access exclusive mode".encode())
        stage.passes(3)


@STEPS.add("resync a table")
def resync(stage: Stage) -> None:
    stage.command("resync", _some_table(stage))


@STEPS.add("kill a command")
def kill_command(stage: Stage) -> None:
    """In the midst; then it is repeated."""
    name = _some_table(stage)
    program = stage.programs.command("resync", name)
    stage.passes(0.3 + stage.chance.random())
    program.child.signal(signal.SIGKILL)
    stage.finish(program)
    stage.command("resync", name)


@STEPS.add("remove and add a table")
def remove_and_add(stage: Stage) -> None:
    name = _some_table(stage)
    stage.command("remove-table", name, "--ignore-missing")
    stage.command("add-table", name)


@STEPS.add("compare")
def compare(stage: Stage) -> None:
    """While the application writes."""
    stage.writer.calm = True
    try:
        _equal(stage)
    finally:
        stage.writer.calm = False


@STEPS.add("damage and repair")
def damage(stage: Stage) -> None:
    """Rows that are deleted or changed in the target must be found, and must come back."""
    chosen = stage.chance.choice([t for t in stage.zoo if not t.shape.keyless])
    with stage.writer.held():
        # The worker would stop at the change of a row that it misses.
        stage.settle()
        with (
            session(stage.pair.target.dsn, name=NAME, autocommit=True, replica=True) as conn,
            conn.transaction(),
        ):
            some = f"ctid in (select ctid from {chosen.sql} limit 2)"
            lost = conn.execute(f"delete from {chosen.sql} where {some}".encode()).rowcount
            conn.execute(f"update {BURST} set v = 'y' where id = 1".encode())
        wanted = {chosen.name: (lost, 0), BURST: (0, 1)}
        found = _compared(stage, chosen.name, BURST)
        stage.book.checked("compare")
        if found != wanted:
            stage.book.broke(
                "compare",
                f"(missing, differing) rows in the target: {wanted}; compare reports {found}",
                f"tables {chosen.name}, {BURST}",
                "report it: this is a bug in Londiste",
            )
        plan = str(stage.programs.directory / "plan.sql")
        stage.command("repair", chosen.name, BURST, "--apply", "--plan", plan, "--overwrite")


def _equal(stage: Stage) -> None:
    found = _compared(stage)
    stage.book.checked("compare")
    differ = [name for name, rows in found.items() if rows != (0, 0)]
    if differ:
        stage.book.broke(
            "compare",
            "compare finds differences where the application only writes to the source",
            f"tables {', '.join(differ)}",
            "londiste doctor SOURCE TARGET",
        )


def _compared(stage: Stage, *names: str) -> dict[str, tuple[int, int]]:
    """Missing and differing rows by table, as ``compare`` reports them."""
    program = stage.command("compare", "--json", *names, accept=(0, 3))
    lines = [line for line in program.text().splitlines() if line.startswith("{")]
    tables = json.loads(lines[-1])["tables"]
    return {t["table"]: (t["missing"], t["differs"] + t["extra"]) for t in tables}


def _some_table(stage: Stage) -> str:
    return stage.chance.choice(stage.zoo).name
