"""Options and output that the commands about tables and sequences share."""

from __future__ import annotations

import click

from londiste.cli import options, output
from londiste.errors import BadOption
from londiste.orchestration.plan import CommandPlan
from londiste.replication.model import ReplicatedTable
from londiste.replication.tablesync.copy_source import ANY

table_names = click.argument("names", nargs=-1, metavar="TABLE...")
ignore_missing = click.option(
    "--ignore-missing",
    is_flag=True,
    cls=options.Renamed,
    londiste3=("--force",),
    help="Ignore unknown names.",
)
all_of_them = click.option("--all", "every", is_flag=True, help="Apply to all of them.")


def already(plan: CommandPlan, word: str) -> None:
    """Prints which names are ignored, and why."""
    for name in plan.already:
        output.message(f"{name}: already {word}")
    for line in plan.skipped:
        output.warning(f"{line}, skipped")
    for line in plan.notes:
        output.warning(line)


def progress(found: list[ReplicatedTable]) -> None:
    """Prints how many tables are in sync, and some that are not."""
    ok = sum(t.state == "ok" for t in found)
    left = [f"{t.name} {t.state or 'waiting'}" for t in found if t.state != "ok"]
    more = "" if len(left) <= 3 else f" and {len(left) - 3} more"
    output.message(
        f"{ok}/{len(found)} tables in sync" + (f"; {', '.join(left[:3])}{more}" if left else "")
    )


def copy_node_of(find: bool, node: str | None) -> str:
    """The node to copy from, as it is stored; '' means the provider."""
    if find and node is not None:
        raise BadOption(
            "--find-copy-node and --copy-node exclude each other",
            hint="give one of the two options",
        )
    if node is not None and node in ("", ANY):
        raise BadOption(
            f"--copy-node {node}: not the name of a node",
            hint="name a node, or use --find-copy-node",
        )
    return ANY if find else node or ""
