"""Collects the facts that metrics are made of: a cascade, or the queues of databases."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from londiste.copy import progress
from londiste.copy.progress import Progress
from londiste.db.connection import Connection, describe_dsn, session
from londiste.errors import LondisteError
from londiste.metrics.catalog import MOST_DATABASES
from londiste.monitor import status as monitor
from londiste.monitor.alarms import DatabaseFacts
from londiste.monitor.place import Place, first_answer
from londiste.monitor.queues import collect as queues
from londiste.monitor.queues.model import Limits, MonitorFacts
from londiste.monitor.status import Status
from londiste.orchestration.connections import side_by_side
from londiste.replication.apply import errors

#: Seconds for which a silent server is waited for.
_ANSWER_SECONDS = 8


@dataclass(frozen=True)
class NodeMeasures:
    """Facts of one node beside its status.

    database -- where it is.
    conflicts -- how often conflict resolutions were applied, by kind of conflict.
    """

    database: str
    facts: DatabaseFacts
    copies: tuple[Progress, ...] = ()
    conflicts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Cascade:
    """A cascade, or one node of it.

    measures -- by name, of the nodes that answered.  only -- nodes that are shown; empty: all.
    """

    status: Status
    measures: dict[str, NodeMeasures]
    only: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Databases:
    """Queues of databases; facts of a database are None if it does not answer."""

    facts: dict[str, MonitorFacts | None]

    @property
    def complete(self) -> bool:
        """Whether all databases answered."""
        return None not in self.facts.values()


def cascade(places: Sequence[Place], *, only_local: bool = False) -> Cascade:
    """The cascade as the first place that answers knows it.

    Raises the error of the first place if none answers.
    """
    return first_answer(places, lambda place: _cascade(place, only_local))


def _cascade(place: Place, only_local: bool) -> Cascade:
    lock = threading.Lock()
    measures: dict[str, NodeMeasures] = {}

    def visit(conn: Connection, name: str, facts: DatabaseFacts) -> None:
        copies: tuple[Progress, ...] = ()
        conflicts: Counter[str] = Counter()
        # Older schemas know no progress.
        with contextlib.suppress(LondisteError):
            copies = tuple(progress.read(conn, place.queue))
        # Not every role may see these.
        with contextlib.suppress(LondisteError):
            for one in errors.get_conflicts(conn, place.queue):
                conflicts[one.kind] += one.times
        with lock:
            measures[name] = NodeMeasures(describe_dsn(conn.info.dsn), facts, copies, conflicts)

    status = monitor.collect(
        place.dsn,
        place.queue,
        extra=place.extra,
        limits=Limits(),
        only_local=only_local,
        visit=visit,
    )
    return Cascade(status, measures)


def databases(dsns: Iterable[str]) -> Databases:
    """The queues of databases, asked side by side."""

    def facts(dsn: str) -> MonitorFacts | None:
        try:
            with session(
                dsn, name="londiste metrics", autocommit=True, answer_seconds=_ANSWER_SECONDS
            ) as conn:
                return queues.collect(conn)
        except LondisteError:
            return None

    asked = list(dsns)[:MOST_DATABASES]
    answers = side_by_side(facts, asked)
    return Databases(dict(zip(map(describe_dsn, asked), answers, strict=True)))


def readers(dsn: str, queue: str, is_own: Callable[[str], bool]) -> Databases:
    """A queue, and those of its consumers that are a program's own."""
    with session(
        dsn, name="londiste metrics", autocommit=True, answer_seconds=_ANSWER_SECONDS
    ) as conn:
        facts = queues.collect(conn, queue)
    own = tuple(one for one in facts.consumers if is_own(one.name))
    return Databases({describe_dsn(dsn): dataclasses.replace(facts, consumers=own)})


class CopiedBytes:
    """Sums the bytes of copies over their ends and new starts."""

    def __init__(self) -> None:
        self._before: dict[str, dict[str, int]] = {}
        self._totals: dict[str, int] = {}

    def add(self, found: Cascade) -> dict[str, int]:
        """The bytes by node since the first call; nodes that do not answer keep theirs."""
        for name, measures in found.measures.items():
            before = self._before.get(name)
            now = {one.table: one.bytes for one in measures.copies}
            grown = 0
            if before is not None:
                grown = sum(
                    size - before.get(table, 0) if size >= before.get(table, 0) else size
                    for table, size in now.items()
                )
            self._totals[name] = self._totals.get(name, 0) + grown
            self._before[name] = now
        return dict(self._totals)


@dataclass(frozen=True)
class Counted:
    """A cascade, and the bytes that its copies have moved by node; None: not counted."""

    cascade: Cascade
    copied: dict[str, int] | None = None


def counting(collect: Callable[[], Cascade]) -> Callable[[], Counted]:
    """``collect`` with the bytes of copies since the first call."""
    copied = CopiedBytes()

    def counted() -> Counted:
        found = collect()
        return Counted(found, copied.add(found))

    return counted


def only(found: Cascade, names: Iterable[str]) -> Cascade:
    """The cascade of which only these nodes are shown; the others tell their lag."""
    return dataclasses.replace(found, only=frozenset(names))
