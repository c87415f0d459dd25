"""Verdict about a cascade for monitoring: findings, exit code, one line and perfdata."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from londiste.cascade.daemons import STANDBY, Life, Running
from londiste.cascade.watermark import ATTR, group_names
from londiste.daemon.durations import dhms
from londiste.db.names import argument
from londiste.errors import LondisteError
from londiste.monitor.node_errors import refused
from londiste.monitor.queues.model import Finding, Severity
from londiste.monitor.queues.rules import worst
from londiste.monitor.status import NodeStatus, Status
from londiste.wording import hint_in

#: Findings that one line names.
_NAMED = 3
#: Sources of ``NodeStatus.errors`` that are no consumers, and their severity.
SOURCES = {
    "node-copy": Severity.CRITICAL,
    "capture": Severity.CRITICAL,
    "branch-capture": Severity.WARNING,
    "second-queue": Severity.CRITICAL,
    "native-subscription": Severity.CRITICAL,
    "missing": Severity.CRITICAL,
    "table-replaced": Severity.CRITICAL,
    "partition": Severity.CRITICAL,
    "partition-detached": Severity.CRITICAL,
    "replication-role": Severity.CRITICAL,
    "subscribers": Severity.CRITICAL,
    "subscription": Severity.WARNING,
    "rewritten": Severity.WARNING,
    "follow": Severity.WARNING,
    "no-tables": Severity.WARNING,
    "sequence-missing": Severity.WARNING,
    "sequence-range": Severity.WARNING,
    "sequence-behind": Severity.WARNING,
}


@dataclass(frozen=True)
class Allowed:
    """Limits of a healthy cascade; ten times a limit is critical.

    lag -- seconds.  backlog -- events; None: no limit.  held -- seconds for which a consumer may
        keep the events of a node's queue: watermarks arrive every five minutes.
    """

    lag: float = 60.0
    backlog: int | None = None
    held: float = 900.0


def findings(
    status: Status, allowed: Allowed | None = None, only: Collection[str] = ()
) -> list[Finding]:
    """Pure: all findings about a cascade, the worst first.

    only -- nodes that are looked at; empty: all.
    """
    allowed = allowed or Allowed()
    found = [one for node in chosen(status, only) for one in of_node(node, status, allowed)]
    found += [of_missing(name, status) for name in missing(status, only)]
    found += of_cascade(status)
    return sorted(found, key=lambda one: (-one.severity.rank, _ORDER.get(one.kind, 9), one.what))


def chosen(status: Status, only: Collection[str] = ()) -> list[NodeStatus]:
    """Pure: the nodes that are looked at; all if none is named."""
    return [node for node in status.nodes if not only or node.name in only]


def missing(status: Status, only: Collection[str]) -> list[str]:
    """Pure: names of nodes that are looked at and that the cascade does not have."""
    return sorted(set(only) - {node.name for node in status.nodes})


def of_missing(name: str, status: Status) -> Finding:
    """Pure: the finding about a node that the cascade does not have."""
    what = f"is not in the cascade of queue {status.queue}"
    why = "it was dropped or renamed, or the name is wrong: nobody watches it"
    do = "londiste members; then name one of these nodes with --node"
    return _finding(Severity.CRITICAL, "unknown-node", what, why, do, status.queue, name)


def of_cascade(status: Status) -> Iterator[Finding]:
    """Pure: the findings about a whole cascade."""
    if any(node.type == "root" for node in status.nodes):
        return
    if refusing := [node for node in status.nodes if node.refuses]:
        # One of them may be the root: nobody takes over.
        yield _finding(
            Severity.UNKNOWN,
            "no-root",
            f"queue {status.queue}: no root is known",
            f"{', '.join(node.name for node in refusing)} may be the root; lag is unknown",
            refusing[0].alarms[0].do,
            status.queue,
        )
    else:
        yield _finding(
            Severity.CRITICAL,
            "no-root",
            f"queue {status.queue}: no root answers",
            "new changes do not arrive, and lag is unknown",
            "londiste status; then start the root; if it has another address: londiste move-node;"
            " if it is lost: londiste takeover",
            status.queue,
        )


#: The cause before what follows from it.
_ORDER = {
    "unknown-node": 0,
    "unreachable": 0,
    "schema-owner": 0,
    "node-copy": 0,
    "no-root": 1,
    "halted": 2,
    "worker": 3,
    "error": 4,
    "lag": 8,
}


def for_silent(name: str) -> str:
    """Pure: what to do about a node that does not answer."""
    node = argument(name)
    return (
        f"start its server; if it has another address: londiste move-node {node} CONNECTION; if it"
        f" is lost: londiste tag-dead {node}, and takeover or drop-node"
    )


def unchecked(name: str, error: LondisteError, queue: str) -> Finding:
    """Pure: the finding about a node of which nothing is known because of an error."""
    for one in refused(error, queue, name):
        return one
    what = f"node {name} was not checked"
    return Finding(Severity.CRITICAL, "unreachable", what, error.message, for_silent(name), queue)


def _finding(
    severity: Severity, kind: str, what: str, why: str, do: str, queue: str, node: str = ""
) -> Finding:
    return Finding(severity, kind, f"node {node}: {what}" if node else what, why, do, queue)


def of_node(node: NodeStatus, status: Status, allowed: Allowed) -> Iterator[Finding]:
    """Pure: the findings about one node."""
    queue = status.queue

    def add(severity: Severity, kind: str, what: str, why: str, do: str) -> Finding:
        return _finding(severity, kind, what, why, do, queue, node.name)

    if node.refuses:
        yield from node.alarms
        return
    if node.unreachable:
        severity = Severity.WARNING if node.tagged_dead else Severity.CRITICAL
        do = for_silent(node.name)
        what = "is marked as failed" if node.tagged_dead else f"does not answer: {node.unreachable}"
        yield add(severity, "unreachable", what, node.unreachable, do)
        return
    for halted in node.halted:
        why = "nothing after it is applied until it is decided"
        do = _at(node, status, "londiste events show")
        yield add(Severity.CRITICAL, "halted", str(halted), why, do)
    halting = {one.consumer for one in node.halted}
    for source, text in node.errors:
        if source not in halting:
            severity = SOURCES.get(source, Severity.CRITICAL)
            kind = source if source in SOURCES else "copy" if ".copy." in source else "error"
            # Others are not stored errors, and may have names of tables in them.
            own = hint_in(text) if kind in ("error", "subscription", "node-copy") else ""
            do = own or _at(node, status, "londiste check")
            yield add(severity, kind, f"{source}: {text}", text, do)
    if unknown := _unknown(node):
        yield add(Severity.UNKNOWN, "unknown", f"unknown: {', '.join(unknown)}", *_OLD)
    for one in node.daemons:
        if not one.life.runs:
            yield add(_daemon(one, node), one.kind, one.text, _ENDED.get(one.kind, ""), one.do)
        elif one.error:
            what, kind, do = f"{one.kind} fails: {one.error}", one.kind, "check its log"
            if one.kind == STANDBY:
                what, kind, do = one.text, READ_FROM, _REPAIR
            yield add(Severity.WARNING, kind, what, _FAILS.get(one.kind, ""), do)
    if (group := group_names(node.attrs)) and not set(group) & {n.name for n in status.nodes}:
        what = f"{ATTR} names no node of the cascade: {', '.join(group)}"
        why = "its watermark is that of the nodes below it only"
        do = f"londiste sync-watermark NODE... --node {argument(node.name)}; or with --off"
        yield add(Severity.WARNING, "watermark-group", what, why, do)
    if node.paused:
        do = f"londiste resume --node {argument(node.name)}"
        yield add(Severity.WARNING, "paused", "the worker is paused", "it applies nothing", do)
    if node.copies_paused and node.tables is not None and node.tables.half:
        what = f"copies are paused; tables not in sync: {node.tables.half}"
        why = "tables are not copied until they are resumed"
        do = _at(node, status, "londiste copy resume")
        yield add(Severity.WARNING, "copies-paused", what, why, do)
    if node.operation is not None:
        what, do = node.operation.what, node.operation.command
        other = node.operation.overtaken_by
        why = (
            f"it cannot be finished: node {other} is the root now" if other else "it is unfinished"
        )
        yield add(Severity.WARNING, "operation", f"under way: {what}", why, do)
    if node.held is not None and node.held.age > allowed.held:
        what = f"events are kept since {dhms(node.held.age)} for {node.held.who}"
        yield add(Severity.WARNING, "held", what, "its tables do not rotate", node.held.do)
    yield from _lag(node, status, allowed)
    for alarm in node.alarms:
        do = _at(node, status, alarm.do) if alarm.kind == "drift" else alarm.do
        yield replace(alarm, what=f"node {node.name}: {alarm.what}", do=do)


def _at(node: NodeStatus, status: Status, command: str) -> str:
    """A command that has to run with the settings of a node, as it can be pasted."""
    if node.name in status.in_file:
        return command.replace("londiste ", f"londiste --node {shlex.quote(node.name)} ", 1)
    if node.name == status.local:
        return command
    return f"with the settings of {node.name}: {command}"


#: Why something is unknown, and what to do.
_OLD = (
    "the SQL of the node is of Londiste 3 or of an earlier version",
    "check it with that version; or upgrade: londiste install --dry-run",
)


def _unknown(node: NodeStatus) -> list[str]:
    """What a node does not report."""
    found = [f"whether its {d.kind} runs" for d in node.daemons if d.life is Life.UNKNOWN]
    if node.tables is None:
        found.append("whether its tables are in sync")
    if node.other_sql:
        found.append("what its captures, copies, scripts and changes of the cascade do")
    return found


_ENDED = {
    "worker": "no change is applied on this node",
    "ticker": "no tick is created, and tables of the queue do not rotate",
    "notify": "findings do not reach operators",
    "audit": "rows that differ from the root's are not found",
}


_FAILS = {
    **{kind: _ENDED[kind] for kind in ("notify", "audit")},
    STANDBY: "the provider has the load that the standby should take from it",
}
#: Id of the finding about a standby that is not read.
READ_FROM = "read-from"
_REPAIR = "start or repair the standby, or correct read_from in the worker's settings"


def _daemon(one: Running, node: NodeStatus) -> Severity:
    if one.kind == "worker" and node.type != "root" and one.life is not Life.NEVER:
        return Severity.CRITICAL
    if one.kind == "ticker" and node.type == "root":
        return Severity.CRITICAL
    return Severity.WARNING


def _lag(node: NodeStatus, status: Status, allowed: Allowed) -> Iterator[Finding]:
    do = f"londiste status; check the log of the worker of {node.name}"
    behind = node.behind
    if behind is None:
        answers = status.root_answers or any(one.behind is not None for one in status.nodes)
        if node.tick is not None and answers:
            what = f"its tick {node.tick} is no longer in the root's queue"
            why = "the events after it may be gone"
            yield _finding(Severity.CRITICAL, "lag", what, why, do, status.queue, node.name)
        elif node.tick is not None and any(one.type == "root" for one in status.nodes):
            # Without a root that is the finding.
            what = "its lag is unknown: the root did not tell the age of its tick"
            why = "it answered the first question and not the second"
            yield _finding(
                Severity.UNKNOWN, "unknown", what, why, "londiste status", status.queue, node.name
            )
        return
    if behind.seconds is None:
        what = f"its lag is unknown: {behind}"
        why = "the clock of the root was set back, and no tick was created since"
        yield _finding(
            Severity.UNKNOWN, "unknown", what, why, "londiste status", status.queue, node.name
        )
    over = max(
        (behind.seconds or 0.0) / allowed.lag,
        behind.events / allowed.backlog if allowed.backlog else 0.0,
    )
    if over > 1:
        severity = Severity.CRITICAL if over > 10 else Severity.WARNING
        why = f"allowed: {dhms(allowed.lag)}"
        if allowed.backlog is not None:
            why += f", {allowed.backlog:,} events"
        yield _finding(severity, "lag", str(behind), why, do, status.queue, node.name)


def one_line(status: Status, found: list[Finding], allowed: Allowed) -> str:
    """The line of a plugin of Nagios: verdict, the worst findings, and perfdata."""
    severity = worst(found)
    if found:
        text = "; ".join(_plain(one.what) for one in found[:_NAMED])
        if len(found) > _NAMED:
            text += f"; and {len(found) - _NAMED} more"
    else:
        text = f"queue {status.queue}, {len(status.nodes)} nodes"
    if severity is Severity.UNKNOWN:
        unknown = next(one for one in found if one.severity is severity)
        text += f"; look: {unknown.do}"
    return f"LONDISTE {severity.word.upper()} - {text} | {' '.join(_perfdata(status, allowed))}"


def _perfdata(status: Status, allowed: Allowed) -> Iterator[str]:
    silent = sum(bool(node.unreachable) for node in status.nodes)
    yield f"nodes={len(status.nodes)}"
    yield f"unreachable={silent}"
    backlog = ";".join(
        "" if limit is None else f"{limit}"
        for limit in (allowed.backlog, None if allowed.backlog is None else 10 * allowed.backlog)
    )
    for node in status.nodes:
        if node.behind is not None:
            seconds = node.behind.seconds
            lag = "U" if seconds is None else f"{seconds:.1f}s"
            lag += f";{allowed.lag:g};{10 * allowed.lag:g}"
            yield f"{_label(f'lag_{node.name}')}={lag};0"
            yield f"{_label(f'backlog_{node.name}')}={node.behind.events};{backlog};0"


def _label(text: str) -> str:
    clean = "".join("_" if c in "=|" or not c.isprintable() else c for c in text)
    quoted = clean.replace("'", "''")
    return clean if clean.replace("_", "").isalnum() else f"'{quoted}'"


def _plain(text: str) -> str:
    """Without line breaks, and without what begins the perfdata."""
    return " ".join(text.replace("|", "/").split())
