"""State machine of a newly added table, from missing to ok.

Two processes share the job.  The main worker applies every table that is ok; the copy
process copies the rows of a new one and then replays the events that happened meanwhile,
until both stand at the same tick.

    Missing --main--> InCopy --copy--> CatchingUp --copy--> WannaSync(t)
                                                                |  main, at t or past it
                                                                v
                                        Ok <--copy, at t'-- DoSync(t')

t' is the tick before the first batch that the main worker applies itself: the copy
process stops at t', the main worker waits at t' until the state is ok.  While a table is in
WannaSync its copy is stopped, so t' is never before it.

The state is stored before the work that it allows.  A restarted process reads it and continues from
there; there is no other state.

Rows that the copy brought are not applied again: the copy was made in one snapshot, and an
event whose transaction that snapshot sees is skipped.  Ticks are made one after the other in
the same database, so the first tick after the copy sees at least as much; from that tick on no
event can be one of the copied ones and the snapshot is spent.  The copy process asks for the
hand-over only then, so that no snapshot outlives it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TypeAlias

from londiste.db.snapshot import Snapshot
from londiste.errors import StateError


class By(StrEnum):
    """The process that decides: the worker of the node, or the copy process."""

    MAIN = "main"
    COPY = "copy"


@dataclass(frozen=True)
class Missing:
    """Registered and local, not copied yet."""


@dataclass(frozen=True)
class InCopy:
    """The copy process copies the rows."""


@dataclass(frozen=True)
class CatchingUp:
    """The copy process replays the events since then."""


@dataclass(frozen=True)
class WannaSync:
    """The copy process is at ``tick`` and waits for the main worker to reach it."""

    tick: int


@dataclass(frozen=True)
class DoSync:
    """The main worker is at ``tick`` and waits for the copy process to reach it."""

    tick: int


@dataclass(frozen=True)
class Ok:
    """The main worker applies the table's events."""


SyncState: TypeAlias = Missing | InCopy | CatchingUp | WannaSync | DoSync | Ok

#: States in which the copy process has something to do; each counts as one parallel copy.
COPYING = (InCopy, CatchingUp, WannaSync, DoSync)
#: Those in which its rows are here, and what happened since comes by a consumer of the copy.
REPLAYING = (CatchingUp, WannaSync, DoSync)


@dataclass(frozen=True)
class TableSyncSnapshot:
    """The facts that a process has about a table.

    tick -- the process's own completed tick.
    copy_slot_free -- fewer tables are being copied than may be.
    ok_on_provider -- the provider has the whole table.
    copied -- all rows and the snapshot of the copy are on the target.
    caught_up -- no batch was available at once, and the copy's snapshot is spent.
    """

    by: By
    tick: int = 0
    copy_slot_free: bool = False
    ok_on_provider: bool = False
    copied: bool = False
    caught_up: bool = False


def next_state(now: SyncState, seen: TableSyncSnapshot) -> SyncState:
    """The state to store before any work; ``now`` when nothing changes.

    Raises StateError when the copy process has run past the hand-over tick: events of the
    table would be applied twice.
    """
    match seen.by, now:
        case By.MAIN, Missing() if seen.copy_slot_free and seen.ok_on_provider:
            return InCopy()
        case By.COPY, InCopy() if seen.copied:
            return CatchingUp()
        case By.COPY, CatchingUp() if seen.caught_up:
            return WannaSync(seen.tick)
        case By.MAIN, WannaSync(tick) if seen.tick >= tick:
            return DoSync(seen.tick)
        case By.COPY, DoSync(tick) if seen.tick == tick:
            return Ok()
        case By.COPY, DoSync(tick) if seen.tick > tick:
            raise StateError(
                f"copy process is at tick {seen.tick}, past the hand-over tick {tick}",
                hint="copy the table again: londiste resync TABLE",
            )
    return now


def interesting(by: By, state: SyncState) -> bool:
    """Whether this process applies the events of a table in this state."""
    match state:
        case Ok():
            return by is By.MAIN
        case CatchingUp() | DoSync():
            return by is By.COPY
        case Missing() | InCopy() | WannaSync():
            return False


def may_take_batch(by: By, state: SyncState) -> bool:
    """Whether this process may apply the next batch with a table in this state.

    The main worker waits before the hand-over tick; the copy process waits until it knows that
    tick.
    """
    match state:
        case DoSync():
            return by is By.COPY
        case CatchingUp():
            return True
        case WannaSync() | Missing() | InCopy() | Ok():
            return by is By.MAIN


def in_copy(txid: int, snapshot: Snapshot | None) -> bool:
    """Whether the copy includes the rows of transaction ``txid``; its events are skipped."""
    return snapshot is not None and snapshot.sees(txid)


def snapshot_spent(copy: Snapshot | None, tick: Snapshot) -> bool:
    """Whether no event after ``tick`` is in the copy: the tick sees all the copy saw.

    Both snapshots must come from the same database.
    """
    return copy is None or tick.covers(copy)


def to_text(state: SyncState) -> str | None:
    """The text stored in ``merge_state``."""
    match state:
        case Missing():
            return None
        case InCopy():
            return "in-copy"
        case CatchingUp():
            return "catching-up"
        case WannaSync(tick):
            return f"wanna-sync:{tick}"
        case DoSync(tick):
            return f"do-sync:{tick}"
        case Ok():
            return "ok"


@lru_cache(maxsize=4096)
def from_text(text: str | None) -> SyncState:
    """Reads ``merge_state``; a ``?`` at the end, written by workers of Londiste 3, is ignored.

    Raises StateError for anything else.
    """
    if text is None:
        return Missing()
    name, _, tick = text.removesuffix("?").partition(":")
    match name, tick:
        case "in-copy", "":
            return InCopy()
        case "catching-up", "":
            return CatchingUp()
        case "ok", "":
            return Ok()
        case "wanna-sync", number if number.isdecimal():
            return WannaSync(int(number))
        case "do-sync", number if number.isdecimal():
            return DoSync(int(number))
    raise StateError(
        f"not a table state: {text!r}",
        hint="copy the table again: londiste resync TABLE",
    )


def described(text: str | None) -> str:
    """What happens to a table in this state, for people; raises StateError as ``from_text``."""
    match from_text(text):
        case Missing():
            return "waits for its copy"
        case InCopy():
            return "is being copied"
        case Ok():
            return "is in sync"
    return "catches up"
