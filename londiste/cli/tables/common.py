"""Options and output that the commands about tables and sequences share."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

import click

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeInfo
from londiste.cli import options, output
from londiste.cli.copy.progress_display import DisplayedCopy, entries
from londiste.cli.sync_view import ViewLine, sync_view
from londiste.copy.status import collect as copies_of
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.errors import BadOption, NothingReplicated
from londiste.monitor.lag import without_tick
from londiste.orchestration.plan import CommandPlan
from londiste.replication.model import ReplicatedTable
from londiste.replication.tablesync import states, wait
from londiste.replication.tablesync.copy_source import ANY
from londiste.settings import NodeSettings
from londiste.wording import shortened

#: Seconds between looks at the copies.
_LOOK_SECONDS = 0.5
#: Tables that a line names.
_SHOWN = 3

table_names = click.argument("names", nargs=-1, metavar="TABLE...")
ignore_missing = options.flag("--ignore-missing", "Ignore unknown names.", londiste3="--force")
all_of_them = click.option("--all", "every", is_flag=True, help="Apply to all of them.")
find_copy_node_option = click.option(
    "--find-copy-node", is_flag=True, help="Copy from the nearest node that has the table."
)
copy_node_option = click.option(
    "--copy-node", metavar="NODE", help="Copy from this node above the provider."
)
wait_option = click.option(
    "--wait-sync", is_flag=True, help="Wait until all tables are in sync, then exit."
)
timeout_option = click.option(
    "--timeout",
    metavar="SECONDS",
    type=float,
    help="With --wait-sync: maximum seconds (default: no limit).",
)


def already(plan: CommandPlan, word: str) -> None:
    """Prints which names are ignored, and why."""
    for name in plan.already:
        output.message(f"{name}: already {word}")
    for line in plan.skipped:
        output.warning(f"{line}, skipped")
    for line in plan.notes:
        output.warning(line)


def wait_until_synced(
    conn: Connection,
    settings: NodeSettings,
    timeout: float | None,
    only: Sequence[TableName] = (),
) -> list[ReplicatedTable]:
    """Waits for all tables, or ``only`` these, and displays their progress."""
    queue = settings.queue_name
    with sync_progress(conn, queue) as progress:
        return wait.wait_sync(
            conn,
            queue,
            timeout=timeout,
            only=only,
            progress=progress,
            trouble=output.warning,
            beyond=lambda: without_tick(conn, queue, settings.remote_extra_connstr),
        )


def nothing_replicated(node: NodeInfo, hint: str) -> NothingReplicated:
    """Pure: the error for a node without tables, which a command should wait for."""
    return NothingReplicated(
        f"node {node.name}: no table is replicated",
        detail="there is nothing to wait for",
        hint=hint,
    )


@contextlib.contextmanager
def sync_progress(
    conn: Connection, queue: str
) -> Iterator[Callable[[list[ReplicatedTable]], None]]:
    """A view of the tables that come into sync, to be called with them at each poll."""
    worker = nodes.get_node_info(conn, queue).worker
    next_look = 0.0
    shown: list[DisplayedCopy] = []

    with sync_view(quiet=output.is_quiet()) as view:

        def progress(found: list[ReplicatedTable]) -> None:
            nonlocal next_look, shown
            left = {str(t.name) for t in found if t.state != "ok"}
            if time.monotonic() >= next_look or not left:
                items = copies_of(conn, queue, worker, lag=False).tables if left else []
                shown = entries([one for one in items if one.table in left])
                next_look = time.monotonic() + _LOOK_SECONDS
            text = sync_line(found)
            view(shown, [ViewLine(text, text)])

        yield progress


def sync_line(found: Sequence[ReplicatedTable]) -> str:
    """Pure: how many tables are in sync, and what some others do."""
    ok = sum(t.state == "ok" for t in found)
    left = [f"{t.name} {states.described(t.state)}" for t in found if t.state != "ok"]
    word = "table" if len(found) == 1 else "tables"
    shown = f"; {shortened(left, _SHOWN)}" if left else ""
    return f"{ok} of {len(found)} {word} in sync{shown}"


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
