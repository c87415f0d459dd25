"""``londiste wait-sync``: waits until all tables are in sync."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import click

from londiste.cascade import sqlapi as nodes
from londiste.cli import options, output
from londiste.cli.tables.common import nothing_replicated, table_names, wait_until_synced
from londiste.db.connection import session
from londiste.replication.patterns import parsed
from londiste.settings import NodeSettings


class InSync(TypedDict):
    """Numbers of tables: those that were waited for, and of them those in sync."""

    tables: int
    ok: int


@click.command("wait-sync")
@options.pass_context
@table_names
@click.option(
    "--timeout", metavar="SECONDS", type=float, help="Maximum seconds to wait (default: no limit)."
)
@click.option("--allow-empty", is_flag=True, help="Succeed on a node without tables.")
@options.json_output(InSync)
def wait_sync(
    context: options.Context,
    names: Sequence[str],
    timeout: float | None,
    allow_empty: bool,
    as_json: bool,
) -> None:
    """Wait until all tables are in sync, or the named ones.

    Also waits while the node applies nothing, or gets no ticks, and reports why.  The exit code is
    4 on a node without tables, unless --allow-empty is given.
    """
    settings = context.settings(NodeSettings)
    with session(settings.db, name="londiste wait-sync", autocommit=True) as conn:
        node = nodes.get_node_info(conn, settings.queue_name)
        only = [parsed(name) for name in names]
        found = wait_until_synced(conn, settings, timeout, only)
    if as_json:
        output.as_json(InSync(tables=len(found), ok=len(found)))
    if not found and not allow_empty:
        raise nothing_replicated(
            node,
            "add tables first: londiste add-table; or accept it: londiste wait-sync --allow-empty",
        )
