"""Makes docs/reference/handlers.md from the classes of the handlers: ``make docs``.

Names, options, their types and defaults are those that commands check, so the page cannot say
others; tests/docs holds the committed page against what this makes.
"""

from __future__ import annotations

import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent / "reference" / "handlers.md"

_HEAD = """# Handlers and their options

Made by `docs/generate_handlers.py`. [How to use them](../howto/handlers.md).
`londiste show-handlers NAME` prints the same.

An option is given as `--handler-arg NAME=VALUE` to `add-table` and `change-handler`; *(needed)*:
there is no default. Values of other types and names that are not here are refused with exit code 2.
"""


def page() -> str:
    """The text of the page."""
    from londiste.handlers import registry
    from londiste.handlers.dispatch import Dispatch
    from londiste.handlers.dispatch_presets import PRESETS, preset

    parts = [_HEAD]
    usual = {option.name: option.default for option in registry.options(Dispatch)}
    presets = {name: preset(name) for name in PRESETS}
    for name in registry.names():
        if name in presets:
            continue
        kind = registry.find(name)
        also = f" (also `{'`, `'.join(kind.ALIASES)}`)" if kind.ALIASES else ""
        parts.append(f"\n## `{name}`\n\n{' '.join((kind.__doc__ or '').split())}{also}\n")
        rows = registry.options(kind)
        if not rows:
            parts.append("\nNo options.\n")
            continue
        parts.append("\n| option | takes | default | |\n|---|---|---|---|\n")
        for row in rows:
            default = "*(needed)*" if row.default is None else _code(row.default)
            parts.append(f"| `{row.name}` | {row.takes} | {default} | {_cell(row.help)} |\n")
    parts.append(
        "\n## Presets of `dispatch`\n\nThe same options with other defaults.\n"
        "\nAn update writes the row into the partition of its time, and removes it from no other"
        " one. If an update changes the column of a preset `…_field` to another period, the old"
        " row stays: a select of the parent returns both rows, with the same key. The presets"
        " `…_event`, `…_batch` and `…_time` keep the old row at every update in a later period:"
        " see [updates and deletes](../howto/partition-archive.md#updates-and-deletes).\n"
        "\n| handler | defaults that differ |\n|---|---|\n"
    )
    for name, kind in sorted(presets.items()):
        other = [
            f"`{option.name}={option.default}`"
            for option in registry.options(kind)
            if option.default != usual[option.name]
        ]
        parts.append(f"| `{name}` | {' '.join(other)} |\n")
    return "".join(parts)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.exit(0)
