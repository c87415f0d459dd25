"""Crash points: named places where a test can kill the process (``LONDISTE_CRASH=point[:n]``).

At the n-th pass (first by default) through the named point the process kills itself with
SIGKILL, so nothing of its own can clean up.  Without the variable a point costs one lookup in
an empty dictionary.

``LONDISTE_CRASH=point,point:2`` arms several; ``point:*`` is every pass through one, mark or not.

``LONDISTE_CRASH_MARK=FILE`` makes it happen once: the process makes the file before it dies,
and where the file is already, the point is passed.  A child that is started again with the
same environment therefore gets on, and whoever waits for the file knows that it happened.
Each of several points has a file of its own: ``FILE.point``.

``LONDISTE_CRASH_SIGNAL=STOP`` makes it stand still instead (SIGSTOP), until somebody wakes it up:
so looks a process whose machine hangs for a while.
"""

from __future__ import annotations

import os
import signal

from londiste.errors import BadOption

#: Every point of the program, and what has and has not happened there.
POINTS: dict[str, str] = {
    "plan.before-step": "the next step of a command is about to run, earlier ones are committed",
    "plan.after-step": "one step of a multi-step command is done, the next is not started",
    "run.started": "londiste run has started one daemon more",
    "ticker.before-tick": "the ticker has connected, no tick is created in this round",
    "ticker.after-tick": "ticks of this round are committed",
    "ticker.mid-rotation": "a rotation's step 1 is committed, step 2 is not",
    "worker.before-batch": "the node was checked, nothing of the batch is read",
    "worker.after-next-batch": "the batch is open on the provider, nothing is applied",
    "worker.mid-apply": "some rows of the batch are written, nothing is committed",
    "worker.before-commit": "all rows and the position are written, nothing is committed",
    "worker.after-commit": "rows and position are committed, the branch tick is not created",
    "worker.reading-ahead": "some of the next batch is read while this one is written",
    "worker.read-ahead": "the batch is committed, the next is read, the provider knows neither",
    "worker.before-finish": "the batch is committed, the provider has no record of it",
    "worker.after-finish": "the provider has recorded the batch as finished, not durably",
    "large.begun": "an attempt at a large batch is committed, its tasks are starting",
    "large.mid-slice": "a task of a large batch has staged its slice, not committed",
    "large.after-slice": "a task's slice and its mark are committed",
    "large.mid-merge": "the rows of one slice are written into the tables, not committed",
    "worker.before-state": "a table's next state is decided, not stored",
    "worker.after-state": "a table's next state is committed, its work is not started",
    "script.before": "a script is about to run, rows before it are written, nothing is committed",
    "script.done": "a script has run in an open transaction, nothing is committed",
    "script.after-first": "a script that precedes its batch is committed, the batch is not",
    "script.alone-begun": "a non-transactional statement is recorded as started, not executed",
    "script.alone-done": "a non-transactional statement is done, not recorded",
    "resurrect.before-commit": "a rejoined root is a branch, rows are undone, nothing is committed",
    "copy.registered": "the copy's consumer is registered on the provider, nothing is copied",
    "copy.prepared": "foreign keys and indexes are dropped and stored, the table is empty",
    "copy.mid-chunk": "a chunk's rows are written, not committed",
    "copy.after-chunk": "a chunk and its done-mark are committed",
    "copy.all-chunks": "every chunk is committed, the state is still in-copy",
    "copy.placed": "copied rows are in their partitions, not committed",
    "copy.key-built": "a resumable copy has its key, nothing is replayed by states",
    "copy.mid-states": "one batch is replayed by states, the last chunk's snapshot is not passed",
    "copy.consistent": "the last chunk's snapshot is passed, the state is still in-copy",
    "copy.catching-up": "the state is catching-up, indexes are not built",
    "copy.mid-index": "an index of several is built, not committed",
    "copy.after-index": "an index is committed and removed from the list of indexes to build",
    "copy.restored": "indexes are built again, no event is replayed",
    "copy.mid-catch-up": "one batch of the catch-up is committed",
    "copy.wanna-sync": "the state is wanna-sync",
    "copy.before-ok": "the copy is at the hand-over tick, the state is still do-sync",
    "copy.after-ok": "the state is ok, the copy's consumer is still registered",
    "compare.mid-range": "a task has computed the checksum of a range and not reported it",
    "compare.mid-wave": "checksums of a chunk are known, those of others are not",
    "lake.snapshot-held": "the snapshot of a table's first rows is held, no file is written",
    "lake.written": "a job has written the files of an epoch, no version names them",
    "lake.published": "the version of an epoch exists, the queue has no record of it",
    "lake.mid-vacuum": "old files are about to be deleted",
    "lake.converting": "the log of a converted table is written beside the old one",
    "lake.converted": "the log of a converted table is in place, the old versions still exist",
    "repair.mid-plan": "one statement of the plan has run, nothing is committed",
    "sink.mid-stage": "a task of a sink of Spark has staged its rows, not committed",
    "sink.staged": "a task's rows are staged, the driver has no report of it",
    "sink.mid-commit": "an epoch of a sink and its record are written, not committed",
    "sink.after-commit": "an epoch of a sink is committed, Spark has no report of it",
    "dispatch.mid-copy": "rows of a first copy are written, not committed",
    "dispatch.copied": "the rows of a first copy are committed, the consumer is not moved yet",
    "consumer.before-batch": "a consumer has connected and requested no batch",
    "consumer.after-next-batch": "the consumer's batch is open, no event is processed",
    "consumer.mid-batch": "one event of the batch is processed, or one list of them",
    "consumer.after-effect": "once per event: the side effect is done, its mark is not written",
    "consumer.after-mark": "once per event: the mark of one event is committed",
    "consumer.processed": "all events are processed, position and outcomes are not written",
    "consumer.before-commit": "effects and position are written together, not committed",
    "consumer.after-commit": "effects or position are stored, the queue has no record of it",
    "consumer.before-finish": "the finishing transaction has not started",
    "consumer.mid-finish": "retries, dead letters and the batch's end are written, not committed",
    "consumer.after-finish": "the batch is finished on the queue",
}


_EVERY = -1


def _parse(setting: str) -> dict[str, int]:
    found = {}
    for one in filter(None, setting.split(",")):
        name, _, count = one.partition(":")
        if name not in POINTS:
            raise BadOption(
                f"LONDISTE_CRASH: no crash point {name}",
                hint="londiste debug crash-points",
            )
        if count and count != "*" and not count.isdigit():
            raise BadOption(
                f"LONDISTE_CRASH: not a number: {count}", hint="write point:number or point:*"
            )
        found[name] = _EVERY if count == "*" else int(count or 1)
    return found


#: The armed points, and how many passes are left of each.
_armed: dict[str, int] = {}
_several = False


def arm(setting: str | None = None) -> None:
    """Reads LONDISTE_CRASH (or ``setting``); commands call it once at their start."""
    global _armed, _several
    _armed = _parse(os.environ.get("LONDISTE_CRASH", "") if setting is None else setting)
    _several = len(_armed) > 1


def point(name: str) -> None:
    """Kills the process if this point is armed and its count is used up."""
    if name not in _armed:
        return
    every = _armed[name] == _EVERY
    if not every:
        _armed[name] = max(0, _armed[name] - 1)
    mark = os.environ.get("LONDISTE_CRASH_MARK", "")
    mark = f"{mark}.{name}" if mark and _several else mark
    if every or (_armed[name] == 0 and _first_time(mark)):
        stop = os.environ.get("LONDISTE_CRASH_SIGNAL", "") == "STOP"
        os.kill(os.getpid(), signal.SIGSTOP if stop else signal.SIGKILL)


def _first_time(mark: str) -> bool:
    if not mark:
        return True
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True
