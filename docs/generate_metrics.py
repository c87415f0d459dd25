"""Makes docs/reference/metrics.md from the catalog of metrics: ``make docs``.

tests/docs compares the committed page with what this makes.
"""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).resolve().parent / "reference" / "metrics.md"

_HEAD = """\
# Metrics

Metrics of the endpoints and of `londiste metrics --once`: [monitor a cascade](../howto/monitor.md).
Durations are in seconds, sizes in bytes.

The number of series is bounded:

* Labels are names of queues, nodes, daemons, databases and consumers, never of tables or rows.
* A queue has at most {consumers} consumers with series of their own.
  The others, and the consumers of copies, are summed up as `{others}`.
* A ticker shows at most {databases} databases.

A value that is unknown has no series.
"""


def page() -> str:
    """The text of the page."""
    from londiste.metrics.catalog import (
        METRICS,
        MOST_CONSUMERS,
        MOST_DATABASES,
        OTHERS,
        Group,
    )

    lines = [_HEAD.format(consumers=MOST_CONSUMERS, databases=MOST_DATABASES, others=OTHERS)]
    for group in Group:
        lines += [
            f"## {group.value}",
            "",
            "| metric | kind | labels | meaning |",
            "|---|---|---|---|",
        ]
        for one in METRICS:
            if one.group is group:
                labels = ", ".join(f"`{label}`" for label in one.labels)
                lines.append(f"| `{one.name}` | {one.kind.value} | {labels} | {one.help} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
