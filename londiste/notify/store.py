"""State of a notifier in a file: tracked findings, and messages that are not delivered yet.

A file and not a table: what must be reported most is a database that does not answer.  It is
replaced as a whole, and flushed, before anything is sent.  A process holds a lock beside it, so no
two notifiers report the same findings.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from londiste.daemon.files import write_atomically
from londiste.errors import LondisteError, NodeBusy
from londiste.notify.decide import BEGINS, ENDS, LASTS, State, Tracked
from londiste.notify.findings import Observed

_VERSION = 1
#: Messages that wait for one channel; beyond that, findings that have ended are omitted.
MOST_WAITING = 1000


@dataclass(frozen=True)
class Waiting:
    """A message that one channel has not taken yet.

    key, event -- of the finding.  body -- the message as it is sent.
    """

    id: str
    channel: str
    key: str
    event: str
    body: str


@dataclass(frozen=True)
class Stored:
    """Content of the file; waiting -- in the order of delivery."""

    state: State = field(default_factory=State)
    waiting: tuple[Waiting, ...] = ()


def added(waiting: Iterable[Waiting], new: Iterable[Waiting]) -> tuple[Waiting, ...]:
    """Pure: the queue with new messages; a reminder replaces an earlier one that still waits."""
    found = list(waiting)
    for one in new:
        if one.event == LASTS:
            found = [
                other
                for other in found
                if (other.channel, other.key, other.event) != (one.channel, one.key, LASTS)
            ]
        found.append(one)
    for channel in {one.channel for one in found}:
        found = _trimmed(found, channel)
    return tuple(found)


def _trimmed(found: list[Waiting], channel: str) -> list[Waiting]:
    """Without the oldest findings that began and ended while the channel took nothing."""
    excess = sum(one.channel == channel for one in found) - MOST_WAITING
    begun: dict[str, int] = {}
    gone: set[int] = set()
    for number, one in enumerate(found):
        if excess <= len(gone):
            break
        if one.channel != channel:
            continue
        if one.event == BEGINS:
            begun[one.key] = number
        elif one.event == ENDS and one.key in begun:
            gone |= {
                other
                for other in range(begun.pop(one.key), number + 1)
                if (found[other].channel, found[other].key) == (channel, one.key)
            }
    return [one for number, one in enumerate(found) if number not in gone]


class Store:
    """The file of one notifier; use it inside ``owned``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def owned(self) -> Iterator[Store]:
        """Holds the lock.  Raises NodeBusy if another process has it."""
        path = self.path.with_name(f"{self.path.name}.lock")
        try:
            number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._cannot(error) from error
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(number)
            raise NodeBusy(
                f"{self.path}: another process sends these notifications",
                hint="stop it, or set state_file of one of them",
            ) from error
        try:
            yield self
        finally:
            os.close(number)

    def read(self) -> Stored:
        """The content; empty without a file.  Raises LondisteError for a damaged one."""
        try:
            return _stored(json.loads(self.path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return Stored()
        except OSError as error:
            raise self._cannot(error) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LondisteError(
                f"{self.path}: not the state of a notifier",
                detail=f"{type(error).__name__}: {error}",
                hint=f"remove it: rm {self.path}; findings that last are reported again",
            ) from error

    def write(self, stored: Stored) -> None:
        """Replaces the file.  Raises LondisteError."""
        try:
            write_atomically(self.path, json.dumps(_plain(stored)))
        except OSError as error:
            raise self._cannot(error) from error

    def _cannot(self, error: OSError) -> LondisteError:
        return LondisteError(
            f"{self.path}: the state of the notifier cannot be stored: {error.strerror}",
            hint="free space, or set state_file to a directory of this user",
        )


def _plain(stored: Stored) -> dict[str, Any]:
    return {
        "version": _VERSION,
        "looked": stored.state.looked,
        "tracked": [asdict(one) for one in stored.state.tracked.values()],
        "waiting": [asdict(one) for one in stored.waiting],
    }


def _stored(document: dict[str, Any]) -> Stored:
    if document["version"] != _VERSION:
        raise ValueError(f"version {document['version']}")
    tracked = [
        Tracked(**{**one, "finding": Observed(**one["finding"])}) for one in document["tracked"]
    ]
    return Stored(
        State({one.finding.key: one for one in tracked}, document["looked"]),
        tuple(Waiting(**one) for one in document["waiting"]),
    )


def without(stored: Stored, done: Waiting) -> Stored:
    """Pure: the content after a message was delivered."""
    rest = tuple(one for one in stored.waiting if (one.id, one.channel) != (done.id, done.channel))
    return replace(stored, waiting=rest)
