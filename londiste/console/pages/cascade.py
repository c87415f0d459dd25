"""Page Cascade: the nodes as a picture with lag on its edges, roles, watermarks, and findings."""

from __future__ import annotations

from dataclasses import dataclass

from londiste.cascade.daemons import Life
from londiste.console.pages import common
from londiste.console.pages.common import FindingRow, Page, Point, Request
from londiste.monitor.status import NodeStatus, Status


@dataclass(frozen=True)
class NodeRow:
    """A node.

    state -- ok, unreachable, halted, failing, paused, or stale if no worker runs.
    severity -- the worst of its findings.
    in_sync, copying -- numbers of its tables.
    lag_seconds, lag_events -- that the node is behind the last change; 0: everything is applied.
    latency_seconds -- from a commit on the root until the change is visible; about.
    tick -- that it has reached.
    local_watermark -- finished by the node and all nodes below; global_watermark -- by all nodes.
    kept_for -- the consumer that keeps the oldest events of its queue, and their age.
    """

    node: str
    type: str
    provider: str | None
    state: str
    severity: str
    in_sync: int | None
    copying: int | None
    lag_seconds: float | None
    lag_events: int | None
    latency_seconds: float | None
    tick: int | None
    local_watermark: int | None
    global_watermark: int | None
    kept_for: str | None
    kept_seconds: float | None
    lag: str
    daemons: tuple[str, ...]
    under_way: str | None
    attributes: dict[str, str]
    history: tuple[Point, ...]


@dataclass(frozen=True, kw_only=True)
class CascadePage(Page):
    """The nodes of the cascade, the root first, and what is wrong with them."""

    nodes: tuple[NodeRow, ...] = ()
    findings: tuple[FindingRow, ...] = ()


def build(request: Request) -> CascadePage:
    """The values of the page."""
    head = common.head(request, "londiste status")
    snapshot = request.view.snapshot
    if snapshot is None:
        return CascadePage(**head)
    status = snapshot.status
    return CascadePage(
        **head,
        nodes=tuple(_row(request, node, status) for node in status.nodes),
        findings=common.findings(status),
    )


def _row(request: Request, node: NodeStatus, status: Status) -> NodeRow:
    behind = node.behind
    root = node.type == "root"
    return NodeRow(
        node=node.name,
        type=node.type,
        provider=node.provider,
        state=node.table_state if not node.unreachable else "unreachable",
        severity=common.severity(node, status),
        in_sync=None if node.tables is None else node.tables.ok,
        copying=None if node.tables is None else node.tables.half,
        lag_seconds=None
        if behind is None or behind.seconds is None or root
        else round(behind.seconds, 3),
        lag_events=None if behind is None or root else behind.events,
        latency_seconds=None if node.latency is None or root else round(node.latency.total, 3),
        tick=node.tick,
        local_watermark=node.local_watermark,
        global_watermark=node.global_watermark,
        kept_for=None if node.held is None else node.held.who,
        kept_seconds=None if node.held is None else round(node.held.age, 1),
        lag="" if root else "unknown" if behind is None else str(behind),
        daemons=tuple(one.text for one in node.daemons if one.life is not Life.UNKNOWN),
        under_way=None if node.operation is None else node.operation.what,
        attributes=dict(node.attrs),
        history=common.points(request, ("lag", node.name)),
    )
