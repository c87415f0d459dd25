"""What goes wrong: each kind is a block; it happens at the beginning, and is mended at the end.

A kind is given the cast, what was decided beforehand, and the command that runs (or None).
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from londiste.selftest.registry import Registry
from tests.nemesis.cast import Cast
from tests.nemesis.plan import Model
from tests.support.lines import Line
from tests.support.scenarios.forks import Fork

FAULTS = Registry()
#: Only lives with the newer kinds have them.
NEWER_FAULTS = {"full disk", "clock set back"}
How = dict[str, Any]

#: Sessions of the program, and not those of applications and of this test.
_OURS = (
    " from pg_stat_activity where datname = current_database()"
    " and application_name like 'londiste%' and pid <> pg_backend_pid()"
)


def _subscriber(model: Model, chance: random.Random) -> How:
    return {"node": chance.choice([*model.subscribers(), *model.world.others()])}


def _any_node(model: Model, chance: random.Random) -> How:
    return {"node": chance.choice([model.root, *model.subscribers(), *model.world.others()])}


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@FAULTS.add("kill worker", weight=3, draw=_subscriber)
@contextlib.contextmanager
def kill_worker(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    _signal(cast.workers(how["node"]), signal.SIGKILL)
    yield


@FAULTS.add("kill copy", weight=2)
@contextlib.contextmanager
def kill_copy(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    _signal(cast.copies(), signal.SIGKILL)
    yield


@FAULTS.add("kill ticker")
@contextlib.contextmanager
def kill_ticker(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    _signal(cast.tickers(), signal.SIGKILL)
    yield


@FAULTS.add("kill command", weight=2)
@contextlib.contextmanager
def kill_command(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    if command is not None:
        command.send(signal.SIGKILL)
    yield


@FAULTS.add("interrupt command")
@contextlib.contextmanager
def interrupt_command(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    if command is not None:
        command.send(signal.SIGINT)
    yield


@FAULTS.add("kill all")
@contextlib.contextmanager
def kill_all(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    """As when the machine of the daemons is lost."""
    for fork in [*cast.daemons().values(), *([command] if command else [])]:
        fork.send(signal.SIGKILL)
    yield


@FAULTS.add("end backends", weight=2, draw=_any_node)
@contextlib.contextmanager
def end_backends(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    cast.rows(how["node"], f"select pg_terminate_backend(pid){_OURS}")
    yield


@FAULTS.add("cancel backends", weight=2, draw=_any_node)
@contextlib.contextmanager
def cancel_backends(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    cast.rows(how["node"], f"select pg_cancel_backend(pid){_OURS} and state = 'active'")
    yield


@FAULTS.add("stop worker", draw=_subscriber)
@contextlib.contextmanager
def stop_worker(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    """SIGSTOP."""
    workers = cast.workers(how["node"])
    _signal(workers, signal.SIGSTOP)
    yield
    _signal(workers, signal.SIGCONT)


@FAULTS.add("stop ticker")
@contextlib.contextmanager
def stop_ticker(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    tickers = cast.tickers()
    _signal(tickers, signal.SIGSTOP)
    yield
    _signal(tickers, signal.SIGCONT)


@FAULTS.add("two workers", draw=_subscriber)
@contextlib.contextmanager
def two_workers(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    """The worker is stopped, another one takes over, and the first one goes on."""
    first = cast.places[how["node"]].worker
    if first is None or first.code() is not None:
        yield
        return
    first.send(signal.SIGSTOP)
    cast.rows(
        how["node"],
        f"select pg_terminate_backend(pid){_OURS} and application_name like '%worker%'",
    )
    cast.start_worker(how["node"])
    yield
    first.send(signal.SIGCONT)
    cast.doubles.append(first)


@FAULTS.add("immediate stop", weight=1.5, draw=_any_node)
@contextlib.contextmanager
def immediate_stop(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    """Of the server of a node, and of all others there."""
    server = cast.places[how["node"]].database.cluster
    server.stop("immediate")
    yield
    server.up()


def _broken(cast: Cast, how: Callable[[Line], None]) -> Iterator[None]:
    """The line between the root and its subscribers, until the fault ends."""
    assert cast.line is not None
    how(cast.line)
    yield
    cast.line.mend()


@FAULTS.add("silent line", weight=1.5, when=lambda world: world.line)
@contextlib.contextmanager
def silent_line(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    """Nothing comes through between the root and its subscribers, and nothing ends."""
    yield from _broken(cast, lambda line: line.cut())


@FAULTS.add("half-open line", when=lambda world: world.line)
@contextlib.contextmanager
def half_open(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    """Connections that there are fall silent; new ones are sound."""
    yield from _broken(cast, lambda line: line.stall())


@FAULTS.add("deaf line", when=lambda world: world.line)
@contextlib.contextmanager
def deaf(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    """Questions arrive, answers do not."""
    yield from _broken(cast, lambda line: line.deafen())


@FAULTS.add("kill pooler", weight=1.5, draw=_any_node, when=lambda world: world.pooler)
@contextlib.contextmanager
def kill_pooler(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    """With all connections to a node; its backends go on until they notice."""
    pooler = cast.places[how["node"]].pooler
    if pooler is None:
        yield
        return
    pooler.stop()
    yield
    pooler.up()


@FAULTS.add("table lock", weight=1.5, draw=_any_node)
@contextlib.contextmanager
def table_lock(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    """A session of somebody else keeps a lock on every table of the life."""
    with cast.connect(how["node"]) as conn:
        conn.execute("set lock_timeout = '100ms'")
        with contextlib.suppress(psycopg.Error):
            with conn.transaction():
                for table in cast.tables:
                    with contextlib.suppress(psycopg.errors.LockNotAvailable):
                        with conn.transaction():
                            conn.execute(f"lock table {table.sql} in share mode")
                yield
                return
    yield


@FAULTS.add("row locks", draw=_subscriber)
@contextlib.contextmanager
def row_locks(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    """A local session on a subscriber keeps rows locked that the worker is to change."""
    with cast.connect(how["node"]) as conn:
        conn.execute("begin")
        conn.execute("select from nemesis.account for update")
        yield
        with contextlib.suppress(psycopg.Error):
            conn.execute("rollback")


_TIMEOUTS = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")


@FAULTS.add(
    "timeouts",
    draw=lambda model, chance: {
        **_any_node(model, chance),
        "name": chance.choice(_TIMEOUTS),
        "ms": chance.choice([20, 200]),
    },
)
@contextlib.contextmanager
def timeouts(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    """The database has short timeouts by default, and the daemons start in it."""
    name = cast.places[how["node"]].database.name
    cast.rows(how["node"], f"alter database {name} set {how['name']} = {how['ms']}")
    for fork in cast.daemons().values():
        fork.kill()
    cast.revive()
    yield
    cast.rows(how["node"], f"alter database {name} reset {how['name']}")


_POINTS = (
    "worker.before-batch",
    "worker.after-next-batch",
    "worker.mid-apply",
    "worker.before-commit",
    "worker.after-commit",
    "worker.read-ahead",
    "worker.before-finish",
    "worker.after-finish",
    "worker.before-state",
    "worker.after-state",
    "script.before",
    "script.done",
    "copy.registered",
    "copy.prepared",
    "copy.mid-chunk",
    "copy.after-chunk",
    "copy.all-chunks",
    "copy.catching-up",
    "copy.restored",
    "copy.mid-catch-up",
    "copy.wanna-sync",
    "copy.before-ok",
    "copy.after-ok",
)


@FAULTS.add(
    "crash point",
    weight=3,
    draw=lambda model, chance: {
        **_subscriber(model, chance),
        "points": chance.sample(_POINTS, 3),
        "count": chance.randint(1, 2),
    },
    more="before",
)
@contextlib.contextmanager
def crash_point(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    """The worker and its copy process kill themselves at given points, once at each."""
    worker = cast.places[how["node"]].worker
    if worker is None:
        yield
        return
    worker.send(signal.SIGKILL)
    worker.wait(30)
    mark = cast.directory / f"crashed{len(list(cast.directory.glob('crashed*')))}"
    cast.start_worker(
        how["node"],
        LONDISTE_CRASH=",".join(f"{p}:{how['count']}" for p in how["points"]),
        LONDISTE_CRASH_MARK=str(mark),
    )
    yield


@FAULTS.add(
    "command at a step",
    weight=2,
    draw=lambda model, chance: {"step": chance.randint(1, 9)},
    more="environment",
)
@contextlib.contextmanager
def command_at_a_step(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    """The command kills itself before one of its steps."""
    yield


@FAULTS.add("connections used up", draw=_any_node, weight=0.7)
@contextlib.contextmanager
def used_up(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    """Nobody can connect, who is not there yet."""
    name = cast.places[how["node"]].database.name
    server = cast.places[how["node"]].database.cluster
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as conn:
        conn.execute(f"alter database {name} allow_connections false".encode())
        try:
            conn.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
                " and application_name like 'londiste%%'",
                [name],
            )
            yield
        finally:
            conn.execute(f"alter database {name} allow_connections true".encode())


@FAULTS.add("full disk", weight=6, when=lambda world: world.small_disk)
@contextlib.contextmanager
def full_disk(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    """No table of any node can grow."""
    if cast.disk is None:
        yield
        return
    with cast.disk.full():
        yield


_TIMES = """
select c.oid::regclass::text, array_agg(quote_ident(a.attname))
from pg_class c join pg_attribute a on a.attrelid = c.oid
where c.relkind = 'r' and a.atttypid = 'timestamptz'::regtype and a.attnum > 0
    and not a.attisdropped
    and c.relnamespace::regnamespace::text in ('pgq', 'pgq_node', 'pgq_ext', 'pgq_coop', 'londiste')
group by c.oid
"""


@FAULTS.add("clock set back", more="before")
@contextlib.contextmanager
def clock_set_back(cast: Cast, how: How, command: Fork | None) -> Iterator[None]:
    """All clocks are set back by an hour: every time that is stored is in the future now.

    Daemons start again after that, as they have no memory of the times before.
    """
    for fork in cast.daemons().values():
        fork.kill()
    with contextlib.ExitStack() as stack:
        later = []
        # Those that can be reached; a lost root comes back with its old times.
        for dsn in dict.fromkeys(place.database.dsn for place in cast.places.values()):
            try:
                conn = stack.enter_context(psycopg.connect(dsn, connect_timeout=5))
            except psycopg.OperationalError:
                break
            conn.execute("set lock_timeout = '1s'; set session_replication_role = replica")
            later.append(conn)
        else:
            with contextlib.suppress(psycopg.errors.LockNotAvailable):
                for conn in later:
                    for table, columns in conn.execute(_TIMES).fetchall():
                        sets = ", ".join(f"{c} = {c} + interval '1 hour'" for c in columns)
                        conn.execute(f"update only {table} set {sets}".encode())
                for conn in later:
                    conn.commit()
                later.clear()
        for conn in later:
            conn.rollback()
    cast.revive()
    yield
