"""Pictures as SVG: places of the nodes of a cascade, and lines of values over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from londiste.console.pages.cascade import NodeRow
from londiste.console.pages.common import Point

WIDTH, HEIGHT = 168, 62
#: Space between two levels, where the lag is written, and between two nodes.
_ACROSS, _DOWN = 132, 22
#: Characters of a name that a box has room for.
_LONGEST = 19


@dataclass(frozen=True)
class Box:
    """A node of the picture; x, y -- its upper left corner."""

    row: NodeRow
    x: int
    y: int

    @property
    def label(self) -> str:
        name = self.row.node
        return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


@dataclass(frozen=True)
class Edge:
    """A line from a provider to its subscriber; x, y -- where the lag is written."""

    path: str
    x: int
    y: int
    text: str
    severity: str


@dataclass(frozen=True)
class Tree:
    """The picture of a cascade: providers on the left, subscribers on the right of them."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]


def tree(nodes: Sequence[NodeRow]) -> Tree:
    """Pure: places of the nodes; those without a known provider begin a tree of their own."""
    names = {node.node for node in nodes}
    below: dict[str | None, list[NodeRow]] = {}
    for node in nodes:
        above = node.provider if node.provider in names and node.provider != node.node else None
        below.setdefault(above, []).append(node)
    boxes: dict[str, Box] = {}
    line = 0

    def place(node: NodeRow, level: int) -> None:
        nonlocal line
        if node.node in boxes:
            return
        boxes[node.node] = Box(node, level * (WIDTH + _ACROSS), line)
        for number, child in enumerate(below.get(node.node, ())):
            if number:
                line += HEIGHT + _DOWN
            place(child, level + 1)

    # The last ones are a circle.
    for start in (*below.get(None, ()), *nodes):
        if start.node not in boxes:
            if boxes:
                line += HEIGHT + _DOWN
            place(start, 0)
    edges = [
        _edge(boxes[box.row.provider], box)
        for box in boxes.values()
        if box.row.provider in boxes and box.row.provider != box.row.node and box.x
    ]
    width = max((box.x + WIDTH for box in boxes.values()), default=0)
    return Tree(width, line + HEIGHT if boxes else 0, tuple(boxes.values()), tuple(edges))


def _edge(above: Box, box: Box) -> Edge:
    x1, y1 = above.x + WIDTH, above.y + HEIGHT // 2
    x2, y2 = box.x, box.y + HEIGHT // 2
    bend = x1 + 20
    return Edge(
        f"M{x1} {y1}H{bend}V{y2}H{x2}",
        bend + (x2 - bend) // 2,
        y2 - 7,
        lag(box.row),
        box.row.severity,
    )


def lag(row: NodeRow) -> str:
    """Pure: the lag in a few characters."""
    if row.state == "unreachable":
        return "no answer"
    if row.lag_events is None or row.lag_seconds is None:
        return "lag unknown"
    if not row.lag_events:
        return "idle"
    return f"{row.lag_events:,} ev, {_short(row.lag_seconds)}"


def _short(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


@dataclass(frozen=True)
class Chart:
    """A line over time; path -- of SVG; top -- the value of its upper edge."""

    path: str
    area: str
    top: float
    newest: float


CHART_WIDTH, CHART_HEIGHT = 300, 60


def chart(points: Sequence[Point], seconds: float) -> Chart | None:
    """Pure: a line from ``seconds`` ago until now; None with less than two points."""
    if len(points) < 2:
        return None
    top = _round_up(max(point.value for point in points))
    # A history that is younger than its room has all of it.
    span = min(seconds, max(60.0, points[0].seconds_ago))
    corners = [
        (
            round(CHART_WIDTH * (1 - min(1.0, point.seconds_ago / span)), 1),
            round(CHART_HEIGHT * (1 - point.value / top), 1),
        )
        for point in points
    ]
    line = "L".join(f"{x:g} {y:g}" for x, y in corners)
    first, last = corners[0][0], corners[-1][0]
    area = f"M{first:g} {CHART_HEIGHT}L{line}L{last:g} {CHART_HEIGHT}Z"
    return Chart(f"M{line}", area, top, points[-1].value)


def _round_up(value: float) -> float:
    """1, 2 or 5 with zeros, at least 1."""
    size = 1.0
    while True:
        for factor in (1, 2, 5):
            if value <= factor * size:
                return factor * size
        size *= 10
