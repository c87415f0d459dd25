"""Makes docs/reference/findings.md from the catalog of findings and the alert rules: ``make docs``.

tests/docs compares the committed page with what this makes.
"""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "reference" / "findings.md"
RULES = DOCS.parent / "londiste" / "metrics" / "share" / "rules.yml"

_HEAD = """\
# Findings and alerts

Each finding of `londiste status --check`, `check`, `queue status` and `migrate` has an id.
With `--json` its key `page` is the address of its section here. Alerts have it as `runbook_url`.
[Findings of londiste doctor](doctor.md) have a page of their own.

Limits and severities are in [monitor a cascade](../howto/monitor.md) and
[diagnose a queue](../howto/queue-status.md).
"""

_ALERT = re.compile(
    r"- alert: (?P<name>\w+)\n\s+expr: (?P<expr>[^\n]+)\n(?:\s+for: (?P<time>\w+)\n)?"
    r".*?summary: \"(?P<summary>[^\n]+)\"\n\s+description: \"(?P<help>[^\n]+)\"",
    re.DOTALL,
)


def _plain(text: str) -> str:
    """A template of Prometheus as text."""
    labels = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: found[1].upper(), text)
    return re.sub(r"\{\{[^}]*\}\}", "N", labels)


def alerts() -> dict[str, dict[str, str]]:
    """The alert rules: expression, time, summary and help by name."""
    text = RULES.read_text(encoding="utf-8")
    return {found["name"]: found.groupdict(default="") for found in _ALERT.finditer(text)}


def page() -> str:
    """The text of the page."""
    from londiste.monitor.catalog import GROUPS

    lines = [_HEAD]
    for heading, group in GROUPS.items():
        lines += [f"## {heading}", ""]
        for kind, (meaning, remedy) in group.items():
            lines += [f"### `{kind}`", "", meaning, "", remedy, ""]
    lines += [
        "## Alerts",
        "",
        "`londiste metrics --rules` prints the rules for Prometheus.",
        "",
    ]
    for name, one in alerts().items():
        after = f", for {one['time']}" if one["time"] else ""
        lines += [f"### `{name}`", "", f"{_plain(one['summary'])}.", ""]
        lines += [_plain(one["help"]).rstrip(".") + ".", "", f"When: `{one['expr']}`{after}.", ""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
