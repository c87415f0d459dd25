"""Which findings stop ``replicate``, and which tables it does not add because of them.  Pure.

| critical finding about           | first set-up of a target | later set-up        |
|----------------------------------|--------------------------|---------------------|
| servers, users, settings         | refused                  | refused             |
| what only an addition needs      | refused                  | no table is added   |
| tables that are replicated       |                          | warning             |
| other tables                     | refused                  | they are not added  |

A set-up that works is started again whatever has become of tables beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from londiste.db.names import TableName
from londiste.monitor.doctor.examine import findings, worst_first
from londiste.monitor.doctor.situation import Situation
from londiste.monitor.queues.model import Finding, Severity

#: Ids of findings about databases that do not matter to tables which are replicated already.
_TO_ADD = frozenset(("create", "sequence", "extension", "replication-role"))


@dataclass(frozen=True)
class Verdict:
    """What follows from the findings about one target.

    warnings -- to be said.  refusals -- they stop the command.
    skipped -- tables that are not added, each with the finding that is the reason.
    """

    warnings: tuple[Finding, ...] = ()
    refusals: tuple[Finding, ...] = ()
    skipped: Mapping[TableName, Finding] = field(default_factory=dict)


def of_findings(found: Iterable[Finding]) -> Verdict:
    """Every critical finding stops the command; the others are said."""
    found = tuple(found)
    stopping = tuple(_critical(found))
    return Verdict(tuple(one for one in found if one not in stopping), stopping)


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict about several targets: each text once, the worst first; without notices."""
    verdicts = tuple(verdicts)
    warnings = {
        one.what: one
        for verdict in reversed(verdicts)
        for one in reversed(verdict.warnings)
        if one.severity is not Severity.OK
    }
    refusals = {one.what: one for verdict in verdicts for one in verdict.refusals}
    skipped = {name: one for verdict in verdicts for name, one in verdict.skipped.items()}
    return Verdict(
        tuple(worst_first(reversed(warnings.values()))), tuple(refusals.values()), skipped
    )


def judge(pair: Situation, names: Collection[TableName], there: Collection[TableName]) -> Verdict:
    """The verdict about a source and a target.

    names -- the tables that are wanted.  there -- those that the target has in this queue.
    """
    part = _Parts(pair)
    old = [name for name in names if name in there]
    if not old:
        return of_findings(part.findings(names))
    new = [name for name in names if name not in there]
    general = part.findings([])
    known = {one.what for one in general}
    stopping = [one for one in _critical(general) if one.kind not in _TO_ADD]
    found = [*general, *(one for one in part.findings(old) if one.what not in known)]
    skipped = _skipped(part, new, [one for one in _critical(general) if one.kind in _TO_ADD], known)
    added = [name for name in new if name not in skipped]
    known |= {one.what for one in found}
    found += [one for one in part.findings(added) if one.what not in known]
    return Verdict(tuple(one for one in found if one not in stopping), tuple(stopping), skipped)


def _skipped(
    part: _Parts, new: Collection[TableName], general: list[Finding], known: set[str]
) -> dict[TableName, Finding]:
    """The new tables that cannot be added: each for itself, then all of the others together."""

    def reasons(names: Collection[TableName]) -> list[Finding]:
        mine = [one for one in part.findings(names) if one.what not in known] if names else []
        return [*_critical(mine), *general]

    if not reasons(new):
        return {}
    skipped = {name: why[0] for name in new if (why := reasons([name]))}
    rest = [name for name in new if name not in skipped]
    together = reasons(rest)
    return skipped | (dict.fromkeys(rest, together[0]) if together else {})


class _Parts:
    """Findings about some of the tables of a situation."""

    def __init__(self, pair: Situation) -> None:
        self._pair = pair
        self._mine = {table.name: table for table in pair.source.tables}
        self._theirs = {table.name: table for table in pair.target.tables} if pair.target else {}

    def findings(self, names: Collection[TableName]) -> list[Finding]:
        pair = self._pair
        mine, theirs = (
            tuple(of[name] for name in names if name in of) for of in (self._mine, self._theirs)
        )
        missing = {name for name in names if name not in self._theirs}
        return findings(
            replace(
                pair,
                chosen=frozenset(names),
                source=replace(pair.source, tables=mine),
                target=None if pair.target is None else replace(pair.target, tables=theirs),
                # It comes with tables that the target lacks.
                code=pair.code if missing else (),
                lacks=[one for one in pair.lacks if missing & one.tables],
            )
        )


def _critical(found: Iterable[Finding]) -> list[Finding]:
    return [one for one in found if one.severity is Severity.CRITICAL]
