"""Findings of a cascade with a stable key, and those that cannot be known now."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from londiste.errors import LondisteError
from londiste.monitor import verdict
from londiste.monitor.queues.model import Finding, Severity
from londiste.monitor.status import Status
from londiste.monitor.verdict import Allowed
from londiste.wording import bounded

#: Characters of a name in a key and in a message; nodes and older queues may have longer ones.
_LONGEST_NAME = 1_000

#: Findings of a node that exist once per object, which their text begins with.
_PER_OBJECT = frozenset({"halted", "error", "copy", "drift"})
#: Those whose text begins with their kind, and then the object: their end of its name.
_AFTER_KIND = {
    "capture": ": ",
    "branch-capture": ": ",
    "second-queue": ": ",
    "native-subscription": ": ",
    "missing": ": ",
    "table-replaced": ": ",
    "partition": "; hint: ",
    "partition-detached": ": ",
    "subscribers": ": ",
    "subscription": " is registered ",
    "rewritten": ": ",
    "follow": " cannot be added: ",
}
#: Findings that need an answer of the root.
_NEEDS_ROOT = frozenset({"lag"})


@dataclass(frozen=True)
class Observed:
    """A finding at one look.

    key -- the same at every look, although numbers in its text change.
    kind -- stable word for programs, as in ``status --check``.
    severity -- 1: warning, 2: critical, 3: unknown, which stands between the two.
    """

    key: str
    kind: str
    severity: int
    queue: str
    node: str
    what: str
    why: str
    do: str


@dataclass(frozen=True)
class Look:
    """What one look at a cascade showed.

    silent -- nodes that did not answer: their earlier findings are neither there nor over.
    rootless -- no root answered, so that lag is unknown.
    blind -- no node answered.
    """

    found: tuple[Observed, ...] = ()
    silent: frozenset[str] = frozenset()
    rootless: bool = False
    blind: bool = False

    def is_known(self, one: Observed) -> bool:
        """Whether the look would have shown this finding if it were still there."""
        if self.blind or (self.rootless and one.kind in _NEEDS_ROOT):
            return False
        return one.node not in self.silent or one.kind == "unreachable"


def rank(one: Observed) -> int:
    """Its place in the order of severities."""
    return Severity(one.severity).rank


def of_status(status: Status, allowed: Allowed, severity: int, only: Collection[str] = ()) -> Look:
    """Pure: the findings of a cascade from this severity on.

    only -- nodes that are looked at; empty: all.
    """
    nodes = verdict.chosen(status, only)
    found = [
        _observed(one, node.name)
        for node in nodes
        for one in verdict.of_node(node, status, allowed)
    ]
    for name in verdict.missing(status, only):
        found.append(_observed(verdict.of_missing(name, status), name))
    of_cascade = [_observed(one, "") for one in verdict.of_cascade(status)]
    found += of_cascade
    rootless = any(one.kind == "no-root" for one in of_cascade)
    return Look(
        tuple(_worst_of_each(one for one in found if rank(one) >= Severity(severity).rank)),
        frozenset(node.name for node in nodes if node.unreachable),
        rootless,
    )


def of_failure(error: LondisteError, queue: str) -> Look:
    """Pure: the look at a cascade of which no node answered."""
    what = f"queue {queue}: no node answers: {error.message}"
    do = error.hint or "londiste status"
    one = Observed(
        _key(queue, "", "unreachable", "", ""),
        "unreachable",
        int(Severity.CRITICAL),
        bounded(queue, _LONGEST_NAME),
        "",
        bounded(what),
        "the state of replication is unknown",
        bounded(do),
    )
    return Look((one,), blind=True)


def _observed(finding: Finding, node: str) -> Observed:
    text = _short(finding.what.removeprefix(f"node {node}: "))
    return Observed(
        _key(finding.queue, node, finding.kind, finding.consumer, _object(finding.kind, text)),
        finding.kind,
        int(finding.severity),
        bounded(finding.queue, _LONGEST_NAME),
        bounded(node, _LONGEST_NAME),
        bounded(text),
        bounded(_short(finding.why)),
        bounded(finding.do),
    )


def _object(kind: str, text: str) -> str:
    """What a finding is about, if a node can have several of its kind."""
    if kind in _AFTER_KIND:
        return text.removeprefix(f"{kind}: ").partition(_AFTER_KIND[kind])[0]
    return text.partition(": ")[0] if kind in _PER_OBJECT else ""


def _short(text: str) -> str:
    """Without the detail of an error, in which PostgreSQL quotes values of rows."""
    return text.partition("; detail: ")[0]


def _key(*words: str) -> str:
    """The words, none of which is longer than a name may be, but each with all that it says."""
    return "/".join(_part(word).replace("%", "%25").replace("/", "%2F") for word in words)


def _part(word: str) -> str:
    if len(word) <= _LONGEST_NAME:
        return word
    return f"{word[:100]}…{hashlib.sha256(word.encode()).hexdigest()[:16]}"


def _worst_of_each(found: Iterator[Observed]) -> Iterator[Observed]:
    worst: dict[str, Observed] = {}
    for one in found:
        if one.key not in worst or rank(one) > rank(worst[one.key]):
            worst[one.key] = one
    yield from worst.values()
