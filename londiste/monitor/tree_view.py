"""Tree view of a cascade as text: nodes with their status, subscribers below.

n1 (root)
  |                           Tables: 4/0/0
  |                           Lag: 3s, Tick: 812
  +--: n2 (branch)
     |                        Tables: 4/0/0
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

from londiste.cascade.daemons import Life
from londiste.daemon.durations import dhms
from londiste.monitor.status import NodeStatus, Status
from londiste.replication.parallel.sqlapi import LargeBatch

_FACTS = 30
_COMPACT_FACTS = 60
#: Consumers of a node that are named, at most.
_READERS = 10
#: Normal lag of watermarks in seconds: workers report them every five minutes.
_LONG_HELD = 600

#: Marks text that deserves attention; a terminal shows it red.
Paint = Callable[[str], str]


def tree(status: Status, paint: Paint = str) -> list[str]:
    """The lines of the tree.  Nodes below no root follow at the end."""
    lines = [f"Queue: {status.queue}   Local node: {status.local}"]
    if status.large_from is not None:
        lines.append(f"Large batches: {crossover(status.large_from, status.engine)}")
    lines.append("")
    for top in _tops(status):
        lines += _node(status, top, "", "", frozenset(), paint)
    return lines


def compact(status: Status, paint: Paint = str) -> list[str]:
    """One line per node, indented by its level."""
    lines = []
    for top in _tops(status):
        for level, node in _walk(status, top, 0, frozenset()):
            head = ("   " * level + _title(node)).ljust(_COMPACT_FACTS)
            facts = "".join(fact.ljust(_FACTS) for fact in _facts(node, paint))
            lines.append((head + facts).rstrip())
    return lines


def crossover(events: int, engine: str) -> str:
    """The batch size from which on an engine job applies it."""
    if not events:
        return "applied serially"
    return f"from {events:,} events on by a job of engine {engine}"


def _tops(status: Status) -> list[NodeStatus]:
    """Roots first, then nodes below none of them."""
    names = {n.name for n in status.nodes}
    tops = [n for n in status.nodes if n.type == "root"]
    seen = {n.name for top in tops for _, n in _walk(status, top, 0, frozenset())}
    for node in status.nodes:
        if node.name not in seen and (node.provider is None or node.provider not in names):
            tops.append(node)
            seen |= {n.name for _, n in _walk(status, node, 0, frozenset())}
    for node in status.nodes:  # circles
        if node.name not in seen:
            tops.append(node)
            seen |= {n.name for _, n in _walk(status, node, 0, frozenset())}
    return tops


def _children(status: Status, node: NodeStatus, above: frozenset[str]) -> list[NodeStatus]:
    mine = [
        n for n in status.nodes if n.provider == node.name and n.name not in above | {node.name}
    ]

    def weight(child: NodeStatus) -> tuple[int, int, str, str]:
        below = list(_walk(status, child, 0, above | {node.name}))
        return max(level for level, _ in below), len(below), child.service, child.name

    return sorted(mine, key=weight)


def _walk(
    status: Status, node: NodeStatus, level: int, above: frozenset[str]
) -> Iterator[tuple[int, NodeStatus]]:
    yield level, node
    for child in _children(status, node, above):
        yield from _walk(status, child, level + 1, above | {node.name})


def _node(
    status: Status,
    node: NodeStatus,
    first: str,
    left: str,
    above: frozenset[str],
    paint: Paint,
) -> list[str]:
    """first -- prefix of the title; left -- prefix of all lines below it."""
    children = _children(status, node, above)
    lines = [first + _title(node)]
    bar = left + ("  |" if children else "")
    for fact in _facts(node, paint):
        lines.append(bar.ljust(_FACTS) + fact)
    for number, child in enumerate(children, 1):
        more = number < len(children)
        below = left + ("  |" if more else "   ")
        lines += _node(status, child, left + "  +--: ", below, above | {node.name}, paint)
    return lines


def _title(node: NodeStatus) -> str:
    inside = f"{node.type}, {node.service}" if node.service else node.type
    return f"{node.name} ({inside})"


def _facts(node: NodeStatus, paint: Paint) -> list[str]:
    facts = []
    if node.unreachable:
        facts.append(paint(f"ERR: {node.unreachable}"))
        facts += [f"  do: {one.do}" for one in node.alarms]
    if node.tables is not None:
        text = f"Tables: {node.tables}" + ("" if node.current else paint(" (not current)"))
        if node.copies_paused and node.tables.half:
            text += ", COPIES PAUSED"
        facts.append(text)
    if node.tick is not None:
        lag, late = _lag(node)
        text = f"Lag: {paint(lag) if late else lag}, Tick: {node.tick}"
        if node.paused:
            text += ", PAUSED"
        if not node.uptodate:
            text += ", NOT UPTODATE"
        facts.append(text)
    facts += [
        one.text if one.life.runs and not one.error else paint(one.text)
        for one in node.daemons
        if one.life is not Life.UNKNOWN
    ]
    facts += [paint(str(one)) for one in node.halted]
    if node.latency is not None:
        facts.append(f"Latency: {node.latency}")
    if node.global_watermark is not None:
        facts.append(f"Watermarks: local {node.local_watermark}, global {node.global_watermark}")
    if node.held is not None and node.held.age > _LONG_HELD:
        since = f"{dhms(node.held.age)} ago, tick {node.held.tick}"
        facts.append(paint(f"Events kept since {since}, for {node.held.who}"))
    if node.operation is not None:
        facts.append(paint(f"UNDER WAY: {node.operation.what}"))
        end = "finish it"
        if other := node.operation.overtaken_by:
            end = f"node {other} is the root now; remove its records"
        facts.append(paint(f"  {end}: {node.operation.command}"))
    if node.audit is not None:
        facts.append(f"Audit: {node.audit}")
    facts += [*_readers(node, paint)]
    if node.large is not None:
        facts.append(f"Last large batch: {_large(node.large)}")
    if node.other_sql:
        facts.append(
            f"SQL: {node.sql_version}, lacks functions of this program: londiste install"
            if node.sql_version
            else "SQL: of Londiste 3 or older"
        )
    if node.tagged_dead:
        facts.append(paint("DEAD"))
    facts += [f"Attr: {key}={value}" for key, value in node.attrs.items()]
    facts += [
        paint(f"WARNING: NEITHER ENCRYPTED NOR LOCAL: {one.names} from {one.client}")
        for one in node.exposed
    ]
    halted = {one.consumer for one in node.halted}
    facts += [
        paint(f"ERR: {consumer}: {message}")
        for consumer, message in node.errors
        # Its event is named, and the message may be long.
        if consumer not in halted
    ]
    facts += [paint(f"{one.severity.word.upper()}: {one.what}") for one in node.alarms]
    return facts


def _lag(node: NodeStatus) -> tuple[str, bool]:
    """The distance to the last change, and whether it deserves attention."""
    if node.behind is not None:
        seconds = node.behind.seconds
        return str(node.behind), seconds is None or seconds > 60
    if node.lag is None:
        return "?", False
    return dhms(node.lag), node.lag > 60


def _readers(node: NodeStatus, paint: Paint) -> Iterator[str]:
    """Other consumers of the node's queue, the most lagging first, and sinks."""
    readers = sorted(node.consumers, key=lambda one: one.lag or timedelta(), reverse=True)
    for one in readers[:_READERS]:
        seen = "never seen" if one.last_seen is None else f"seen {_span(one.last_seen)} ago"
        if one.epoch is not None:
            yield f"Sink {one.consumer}: Epoch {one.epoch} into {one.target}, {seen}"
            continue
        lag = "?" if one.lag is None else _span(one.lag)
        late = one.lag is not None and one.lag.total_seconds() > 60
        place = f"Lag: {paint(lag) if late else lag}, Tick: {one.last_tick}"
        yield f"{one.kind.capitalize()} {one.consumer}: {place}, {seen}"
    if len(readers) > _READERS:
        yield f"{len(readers) - _READERS} more: londiste queue consumers"


def _span(time: timedelta) -> str:
    return dhms(time.total_seconds())


def _large(batch: LargeBatch) -> str:
    ways = {
        "job": f"by a job of {batch.engine}",
        "part": f"by a job of {batch.engine} and the worker",
        "worker": "by the worker",
    }
    text = f"{batch.events:,} events, {ways.get(batch.way or '', 'under way')}"
    if batch.seconds is not None:
        text += f", {dhms(batch.seconds)}"
    return f"{text} ({batch.reason})" if batch.reason else text
