"""Commands that change or show the whole cascade: without ``--node`` they start at its root."""

from __future__ import annotations

import click

_COMMANDS = frozenset({
    "change-provider", "drop-node", "execute", "execute run", "execute status", "export",
    "members", "metrics", "move-node", "rename-node", "show-handlers", "status", "switchover",
    "tag-alive", "tag-dead", "web",
})  # fmt: skip
#: And these with a parameter: for all nodes, or with databases of their own.
_WITH = {"check": "all_nodes", "doctor": "source", "missing": "all_nodes"}


def command_name() -> str:
    """The words that call the command: ``status``, ``execute run``."""
    ctx = click.get_current_context(silent=True)
    return ctx.command_path.partition(" ")[2] if ctx is not None else ""


def starts_anywhere() -> bool:
    """Whether the command that is called needs no name of a node."""
    name, ctx = command_name(), click.get_current_context(silent=True)
    given = ctx.params.get(_WITH[name]) if ctx is not None and name in _WITH else None
    return name in _COMMANDS or bool(given)
