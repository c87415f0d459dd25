"""Decision about notifications: which findings begin, last and end.  Pure, without a clock."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from londiste.monitor.queues.model import Severity
from londiste.notify.findings import Look, Observed

BEGINS, LASTS, ENDS, TEST = "begins", "lasts", "ends", "test"


@dataclass(frozen=True)
class Rules:
    """Limits in seconds.

    after -- a finding must be present for this time before it is reported, in total and with
        shorter gaps; and absent for this time without a gap before its end is.
    remind -- between two reminders; 0: none.
    longest -- the most that counts between two looks: a notifier that did not run saw nothing.
    """

    after: float = 30.0
    remind: float = 14_400.0
    longest: float = 60.0


@dataclass(frozen=True)
class Tracked:
    """A finding over time; moments in seconds since the epoch.

    since -- its first look.  present -- seconds for which it was seen.
    absent -- since when it is not seen; None: it was there at the last look.
    told -- when it was last reported; None: not yet.  told_severity -- what was reported then.
    """

    finding: Observed
    since: float
    present: float = 0.0
    absent: float | None = None
    told: float | None = None
    told_severity: int = 0


@dataclass(frozen=True)
class State:
    """All tracked findings by key, and the moment of the last look."""

    tracked: Mapping[str, Tracked] = field(default_factory=dict)
    looked: float | None = None


@dataclass(frozen=True)
class Message:
    """A notification.

    id -- the same however often it is sent.  event -- begins, lasts, ends or test.
    since, moment -- of the finding and of the message, in seconds since the epoch.
    """

    id: str
    event: str
    finding: Observed
    since: float
    moment: float


def step(state: State, look: Look, now: float, rules: Rules) -> tuple[State, list[Message]]:
    """The next state, and what must be reported now."""
    passed = 0.0 if state.looked is None else min(max(0.0, now - state.looked), rules.longest)
    found = {one.key: one for one in look.found}
    tracked: dict[str, Tracked] = {}
    messages: list[Message] = []
    for key in dict.fromkeys([*state.tracked, *found]):
        before = state.tracked.get(key)
        if key in found:
            after, event = _seen(before, found[key], passed, now, rules)
        else:
            assert before is not None
            if not look.is_known(before.finding):
                tracked[key] = before
                continue
            kept, event = _missed(before, now, rules)
            if kept is None:
                if event:
                    messages.append(_message(before, event, now))
                continue
            after = kept
        tracked[key] = after
        if event:
            messages.append(_message(after, event, now))
    return State(tracked, now), messages


def _seen(
    before: Tracked | None, finding: Observed, passed: float, now: float, rules: Rules
) -> tuple[Tracked, str]:
    if before is None:
        before, passed = Tracked(finding, now), 0.0
    gap = before.absent is not None
    now_there = replace(
        before,
        finding=finding,
        present=before.present + (0.0 if gap else passed),
        absent=None,
    )
    if now_there.told is None:
        if now_there.present < rules.after:
            return now_there, ""
        return replace(now_there, told=now, told_severity=finding.severity), BEGINS
    worse = Severity(finding.severity).rank > Severity(now_there.told_severity).rank
    due = rules.remind > 0 and now - now_there.told >= rules.remind
    if worse or due:
        return replace(now_there, told=now, told_severity=finding.severity), LASTS
    return now_there, ""


def _missed(before: Tracked, now: float, rules: Rules) -> tuple[Tracked | None, str]:
    absent = now if before.absent is None else before.absent
    if now - absent < rules.after:
        return replace(before, absent=absent), ""
    return None, "" if before.told is None else ENDS


def _message(tracked: Tracked, event: str, now: float) -> Message:
    # Begin and end are once per finding; a reminder is known by its moment.
    number = f"{now:.3f}" if event == LASTS else ""
    text = "\n".join((tracked.finding.key, f"{tracked.since:.3f}", event, number))
    name = hashlib.sha256(text.encode()).hexdigest()[:24]
    return Message(name, event, tracked.finding, tracked.since, now)
