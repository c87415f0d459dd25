"""``londiste tables``: lists the replicated tables and their states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import click

from londiste.cascade import sqlapi as nodes
from londiste.cli import options, output
from londiste.cli.documents import Rows
from londiste.db.connection import Connection, session
from londiste.handlers.table_rules import ON_ERROR, resolution
from londiste.monitor.lag import without_tick
from londiste.orchestration.lock_retry import locked_tables, with_holders
from londiste.replication import sqlapi as registered
from londiste.replication.commands import change_form as forms
from londiste.replication.model import ReplicatedTable
from londiste.replication.tablesync import wait
from londiste.settings import NodeSettings

if TYPE_CHECKING:
    from londiste.copy.sqlapi.attempts import CopyChoice


class Table(TypedDict):
    """A table of this node.

    sync_state -- state of the copy; state is ok only while the node applies changes.
    here -- its name on this node.
    trigger, form, reason, copy, copy_reason -- with `--verbose`.
    """

    table: str
    state: str | None
    attributes: dict[str, str]
    here: str
    sync_state: str | None
    trigger: NotRequired[str | None]
    form: NotRequired[str | None]
    reason: NotRequired[str | None]
    copy: NotRequired[str | None]
    copy_reason: NotRequired[str | None]


class Names(TypedDict):
    """With `--names-only`."""

    names: list[str]


TABLES = Rows("tables", Table)


@click.command()
@options.pass_context
@click.option("--names-only", is_flag=True, help="Print names only.")
@click.option(
    "-v", "--verbose", is_flag=True, help="Show capture mode and copy mode, with reasons, too."
)
@options.json_output(TABLES, Names)
def tables(context: options.Context, names_only: bool, verbose: bool, as_json: bool) -> None:
    """List the replicated tables of this node and their states.

    A table in sync has state ok only while the node applies changes; else halted (by an event),
    failing, paused, or stale (no worker runs, or no ticker).
    """
    settings = context.settings(NodeSettings)
    with session(settings.db, name="londiste tables", autocommit=True) as conn:
        nodes.get_node_info(conn, settings.queue_name)
        stale = wait.find(conn, settings.queue_name) or without_tick(
            conn, settings.queue_name, settings.remote_extra_connstr
        )
        found = [t for t in registered.get_table_list(conn, settings.queue_name) if t.local]
        captured = forms.capturing(conn, settings.queue_name) if verbose else {}
        choices = _copy_choices(conn, settings.queue_name) if verbose else {}
        here = {t.dest for t in found}
        locked = [one for one in locked_tables(conn) if one.name in here] if verbose else []
        locked = with_holders(conn, locked)
    if names_only:
        if as_json:
            output.as_json(Names(names=[str(t.name) for t in found]))
        else:
            output.exact("".join(f"{table.name}\n" for table in found))
        return
    rows: list[Table] = [
        {
            "table": str(t.name),
            "state": stale.state if stale is not None and t.state == "ok" else t.state,
            "attributes": dict(t.attrs),
            "here": str(t.dest),
            "sync_state": t.state,
        }
        for t in found
    ]
    columns = ["table", "state", "attributes", "here"]
    if verbose:
        columns += ["trigger", "form", "reason", "copy", "copy_reason"]
        for row, table in zip(rows, found, strict=True):
            how = captured.get(table.dest, forms.Capturing("none"))
            way = choices.get(str(table.name))
            row["trigger"] = how.trigger
            row["form"] = how.form
            row["reason"] = how.reason
            row["copy"] = way.mode if way else None
            row["copy_reason"] = way.reason if way else None
    shown: list[Any] = list(rows)
    if not as_json:
        shown = [{**row, "attributes": _attrs(t)} for row, t in zip(rows, found, strict=True)]
    output.show(
        TABLES,
        shown,
        json_wanted=as_json,
        columns=columns,
        empty="no table is replicated: londiste add-table TABLE, or londiste missing lists tables",
    )
    for one in locked:
        has_form = captured.get(one.name, forms.Capturing("none")).form is not None
        why = "its worker and its copy wait"
        if has_form:
            why = "whether its form still fits was not checked"
        output.warning(f"table {one.name} is {one.why}: {why}; {one.after('londiste tables -v')}")
    if stale is not None and found:
        output.warning(f"the tables are not current: {stale.reason}")


def _copy_choices(conn: Connection, queue: str) -> dict[str, CopyChoice]:
    # Imported here: what copies tables is much, and only -v needs it.
    from londiste.copy.sqlapi.attempts import copy_choices

    return copy_choices(conn, queue)


def _attrs(table: ReplicatedTable) -> str | None:
    words = {
        key: resolution(value) if key == ON_ERROR else value for key, value in table.attrs.items()
    }
    return ", ".join(f"{key}={value}" for key, value in words.items()) or None
