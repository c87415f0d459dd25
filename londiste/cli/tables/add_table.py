"""Commands about replicated tables and sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType
from londiste.cli import options, output
from londiste.cli.plan_output import execute_plan
from londiste.cli.sites import sites
from londiste.db.connection import Connection, session
from londiste.db.names import TableName
from londiste.db.queries import query
from londiste.errors import BadOption, NothingReplicated
from londiste.handlers import registry
from londiste.handlers.table_rules import POLICIES, HandlerAttrs
from londiste.orchestration.plan import CommandPlan
from londiste.replication import sqlapi as registered
from londiste.replication.commands import add_table as adding
from londiste.replication.commands import change_form as forms
from londiste.replication.commands import remove_table as removing
from londiste.replication.commands import resync as resyncing
from londiste.replication.model import (
    COPY_MODES,
    MERGE_ALL,
    NO_MERGE,
    TRIGGERS,
    ReplicatedTable,
    TableOptions,
)
from londiste.replication.registration_filter import RegistrationFilter
from londiste.replication.tablesync import wait
from londiste.replication.tablesync.copy_source import ANY
from londiste.replication.worker import auto_add
from londiste.settings import NodeSettings

if TYPE_CHECKING:
    from londiste.copy.sqlapi.attempts import CopyChoice as CopyChoice

_names = click.argument("names", nargs=-1, metavar="TABLE...")
_all = click.option("--all", "every", is_flag=True, help="All of them.")


@click.command("add-table")
@options.pass_context
@_names
@click.option("--all", "every", is_flag=True, help="Everything that londiste missing shows.")
@click.option("--expect-sync", is_flag=True, help="The rows are here already: no copy.")
@click.option("--skip-truncate", is_flag=True, help="Keep the rows that are here, and copy.")
@click.option("--dest-table", metavar="NAME", help="The table has another name here.")
@click.option("--create", is_flag=True, help="Make missing tables: columns and primary key.")
@click.option("--create-full", is_flag=True, help="Make missing tables whole, as there.")
@click.option("--create-without", metavar="PARTS", help="Parts that --create-full leaves out.")
@click.option(
    "--create-needs",
    is_flag=True,
    help="Create missing functions and extensions that --create-full needs.",
)
@click.option(
    "--trigger",
    type=click.Choice(["capture", "logutriga", "jsontriga", "sqltriga"]),
    help="What captures changes; by default our own capture.",
)
@click.option(
    "--form",
    type=click.Choice(["row", "statement", "auto"]),
    help="How our own capture writes: londiste change-form.",
)
@click.option("--trigger-flags", default="", metavar="LETTERS", help="B A, C Q L J, I U D, S.")
@click.option("--trigger-arg", "trigger_args", multiple=True, metavar="ARG", help="pkey=a,b …")
@click.option(
    "--copy-mode",
    type=click.Choice(COPY_MODES),
    help="In one snapshot, resumable, or by rule (auto).",
)
@click.option("--find-copy-node", is_flag=True, help="Copy from the nearest node that has it.")
@click.option("--copy-node", metavar="NODE", help="Copy from this node, further up.")
@click.option("--merge-all", is_flag=True, help="All queues with a leaf here fill the table.")
@click.option("--no-merge", is_flag=True, help="This queue alone fills the table.")
@click.option(
    "--max-parallel-copy",
    type=click.IntRange(min=1),
    help="Of a merged table: parts that are copied at a time.",
)
@click.option("--where", default="", metavar="CONDITION", help="Keep only such rows here.")
@click.option("--columns", metavar="A,B", help="Keep only these columns here.")
@click.option("--skip-columns", metavar="A,B", help="Keep all columns here but these.")
@click.option("--handler", default="", metavar="NAME", help="One of londiste show-handlers.")
@click.option(
    "--handler-arg", "handler_args", multiple=True, metavar="OPTION=VALUE", help="Option of it."
)
@click.option(
    "--on-error",
    type=click.Choice(POLICIES),
    default="halt",
    help="What becomes of events that do not fit the rows here: londiste change-policy.",
)
@click.option("--no-triggers", is_flag=True, help="No trigger on this node.")
@click.option("--insert-only", is_flag=True, help="Admit tables without key; only INSERT works.")
@click.option("--no-sequences", is_flag=True, help="Without the sequences of its columns.")
@click.option(
    "--whole-row", is_flag=True, help="Tables without key: UPDATE and DELETE by all columns."
)
@click.option("--skip-non-existing", is_flag=True, help="Skip tables that are missing.")
@click.option("--force", is_flag=True, help="Although the provider does not have it.")
@click.option("--wait-sync", is_flag=True, help="Then wait until every table is in step.")
@click.option("--timeout", type=float, help="Seconds for --wait-sync; no limit without.")
@options.explain
@options.json_output
def add_table(
    context: options.Context,
    names: Sequence[str],
    every: bool,
    expect_sync: bool,
    skip_truncate: bool,
    dest_table: str | None,
    create: bool,
    create_full: bool,
    create_without: str | None,
    create_needs: bool,
    trigger: str | None,
    form: str | None,
    trigger_flags: str,
    trigger_args: Sequence[str],
    copy_mode: str | None,
    find_copy_node: bool,
    copy_node: str | None,
    merge_all: bool,
    no_merge: bool,
    max_parallel_copy: int | None,
    where: str,
    columns: str | None,
    skip_columns: str | None,
    handler: str,
    handler_args: Sequence[str],
    on_error: str,
    no_triggers: bool,
    insert_only: bool,
    no_sequences: bool,
    whole_row: bool,
    skip_non_existing: bool,
    force: bool,
    wait_sync: bool,
    timeout: float | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Replicate tables, with the sequences of their columns.

    On the root: their changes go into the queue from now on. On other nodes: the worker copies
    them and then follows. TABLE may hold * and ?; without a dot it is in schema public.
    """
    settings = context.settings(NodeSettings)
    stored = registry.parse(handler, handler_args)
    # A handler may say itself which table gets the rows.
    dest_table = dest_table or registry.make(stored).dest
    wanted = TableOptions(
        expect_sync=expect_sync,
        skip_truncate=skip_truncate,
        dest=TableName.parse(dest_table) if dest_table else None,
        create=create,
        create_full=create_full,
        create_without=_listed("--create-without", create_without),
        create_needs=create_needs,
        trigger=trigger or "",
        form=form or "",
        trigger_flags=trigger_flags,
        trigger_args=tuple(trigger_args),
        triggers=not no_triggers,
        insert_only=insert_only,
        sequences=not no_sequences,
        whole_row=whole_row,
        copy_mode=copy_mode or "",
        copy_node=_copy_node(find_copy_node, copy_node),
        merge=_merge(merge_all, no_merge),
        max_parallel_copy=max_parallel_copy,
        choice=HandlerAttrs(
            stored,
            where.strip(),
            _listed("--columns", columns),
            _listed("--skip-columns", skip_columns),
            on_error,
        ),
    )
    with sites(settings) as reach:
        plan = adding.plan(
            reach,
            settings.db,
            settings.queue_name,
            names,
            wanted,
            every=every,
            force=force,
            skip_non_existing=skip_non_existing,
            wanted=RegistrationFilter.of(settings),
        )
        already(plan, "added")
        if plan.already and (form or trigger):
            option = "--form" if form else "--trigger"
            output.warning(
                f"{option} changes nothing about tables that are added already; londiste tables -v"
                " shows what captures them, londiste change-form gives them another form"
            )
        if plan.already and on_error != "halt":
            output.warning(
                "--on-error changes nothing about tables that are added already: londiste"
                " change-policy"
            )
        if plan.already and (where or columns or skip_columns or handler):
            output.warning(
                "a filter or handler changes nothing about tables that are added already: londiste"
                " change-handler gives them another"
            )
        execute_plan(plan.steps, reach, explain=explain, json_wanted=as_json)
        if wait_sync and not explain:
            wait.wait_sync(
                reach.at(settings.db),
                settings.queue_name,
                timeout=timeout,
                progress=_progress,
                trouble=output.warning,
            )


def _copy_node(find: bool, node: str | None) -> str:
    """The node to copy from, as it is stored; '' when the provider is meant."""
    if find and node is not None:
        raise BadOption("--find-copy-node and --copy-node", hint="give one of the two")
    if node is not None and node in ("", ANY):
        raise BadOption(f"--copy-node {node}: not the name of a node", hint="or: --find-copy-node")
    return ANY if find else node or ""


def _merge(every: bool, alone: bool) -> str:
    """The word for ``local_add_table``; '' when neither was asked for."""
    if every and alone:
        raise BadOption("--merge-all and --no-merge", hint="give one of the two")
    return MERGE_ALL if every else NO_MERGE if alone else ""


def _listed(option: str, text: str | None) -> tuple[str, ...]:
    """The names of a list of columns; None is none."""
    if text is None:
        return ()
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise BadOption(f"{option} {text}: a name is missing", hint=f"write {option} a,b")
    return names


@click.command("remove-table")
@options.pass_context
@_names
@_all
@click.option("--force", is_flag=True, help="Pass over names that nobody knows.")
@options.explain
@options.json_output
def remove_table(
    context: options.Context,
    names: Sequence[str],
    every: bool,
    force: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Stop replicating tables: on the root everywhere, elsewhere on this node.

    Their rows stay, except those of a copy that is under way.
    """
    settings = context.settings(NodeSettings)
    with sites(settings) as where:
        plan = removing.plan(
            where,
            settings.db,
            settings.queue_name,
            names,
            every=every,
            force=force,
            followed=lambda name: auto_add.follows(settings, name),
        )
        already(plan, "removed")
        execute_plan(plan.steps, where, explain=explain, json_wanted=as_json)


@click.command("change-form")
@options.pass_context
@click.argument("names", nargs=-1, metavar="[TABLE...] [row|statement|auto]")
@click.option(
    "--trigger",
    type=click.Choice(tuple(TRIGGERS)),
    help="Change the trigger instead of the form, one transaction a table.",
)
@click.option("--all", "every", is_flag=True, help="Change every captured table (with --trigger).")
@click.option("--force", is_flag=True, help="Proceed even if a worker of Londiste 3 may be left.")
@options.explain
@options.json_output
def change_form(
    context: options.Context,
    names: Sequence[str],
    trigger: str | None,
    every: bool,
    force: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Capture tables of the root in another form, or by another trigger.

    row: an event for every row, cheapest where statements touch few rows. statement: the rows of
    a statement together, cheapest for bulk changes. auto: chosen by rule; londiste tables -v shows
    what and why. TABLE may hold * and ?. With --trigger: tables get another trigger, with the
    arguments and operations of the one they have.
    """
    settings = context.settings(NodeSettings)
    with sites(settings) as where:
        if trigger is not None:
            plan = forms.plan_trigger(
                where,
                settings.db,
                settings.queue_name,
                names,
                trigger,
                every=every,
                force=force,
            )
            already(plan, f"captured by {trigger}")
        else:
            if every:
                names = ["*.*", *names]
            plan = forms.plan(
                where, settings.db, settings.queue_name, names[:-1], names[-1] if names else ""
            )
            already(plan, f"captured in the form {names[-1]}")
        execute_plan(plan.steps, where, explain=explain, json_wanted=as_json)


@click.command()
@options.pass_context
@_names
@_all
@click.option(
    "--copy-mode",
    type=click.Choice(COPY_MODES),
    help="From now on: in one snapshot, resumable, or by rule (auto).",
)
@click.option("--find-copy-node", is_flag=True, help="Copy from the nearest node that has it.")
@click.option("--copy-node", metavar="NODE", help="Copy from this node, further up.")
@click.option("--wait-sync", is_flag=True, help="Then wait until every table is in step.")
@click.option("--timeout", type=float, help="Seconds for --wait-sync; no limit without.")
@options.explain
@options.json_output
def resync(
    context: options.Context,
    names: Sequence[str],
    every: bool,
    copy_mode: str | None,
    find_copy_node: bool,
    copy_node: str | None,
    wait_sync: bool,
    timeout: float | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Copy tables again, while replication goes on."""
    settings = context.settings(NodeSettings)
    with sites(settings) as where:
        plan = resyncing.plan(
            where,
            settings.db,
            settings.queue_name,
            names,
            every=every,
            copy_mode=copy_mode or "",
            copy_node=_copy_node(find_copy_node, copy_node),
        )
        already(plan, "waiting for its copy")
        execute_plan(plan.steps, where, explain=explain, json_wanted=as_json)
        if wait_sync and not explain:
            wait.wait_sync(
                where.at(settings.db),
                settings.queue_name,
                timeout=timeout,
                progress=_progress,
                trouble=output.warning,
            )


@click.command("wait-sync")
@options.pass_context
@_names
@click.option("--timeout", type=float, help="Seconds to wait; no limit without.")
@click.option("--allow-empty", is_flag=True, help="Succeed on a node without tables.")
@options.json_output
def wait_sync(
    context: options.Context,
    names: Sequence[str],
    timeout: float | None,
    allow_empty: bool,
    as_json: bool,
) -> None:
    """Wait until every table is in step, or those that are named.

    The exit code is 4 on a node without tables, unless --allow-empty is given.
    """
    settings = context.settings(NodeSettings)
    with session(settings.db, name="londiste wait-sync", autocommit=True) as conn:
        node = nodes.get_node_info(conn, settings.queue_name)
        found = wait.wait_sync(
            conn,
            settings.queue_name,
            timeout=timeout,
            only=[TableName.parse(name) for name in names],
            progress=_progress,
            trouble=output.warning,
        )
    if as_json:
        output.as_json({"tables": len(found), "ok": len(found)})
    if not found and not allow_empty:
        raise NothingReplicated(
            f"no table is replicated on node {node.name}",
            detail="there is nothing to wait for",
            hint="londiste add-table adds tables; or wait-sync --allow-empty",
        )


def _copy_choices(conn: Connection, queue: str) -> dict[str, CopyChoice]:
    # Imported here: what copies tables is much, and no other command needs it.
    from londiste.copy.sqlapi.attempts import copy_choices

    return copy_choices(conn, queue)


@click.command()
@options.pass_context
@click.option("--names-only", is_flag=True, help="Only the names.")
@click.option(
    "-v", "--verbose", is_flag=True, help="Also how they are captured and copied, and why."
)
@options.json_output
def tables(context: options.Context, names_only: bool, verbose: bool, as_json: bool) -> None:
    """List the replicated tables of this node and their states."""
    settings = context.settings(NodeSettings)
    with session(settings.db, name="londiste tables", autocommit=True) as conn:
        nodes.get_node_info(conn, settings.queue_name)
        found = [t for t in registered.get_table_list(conn, settings.queue_name) if t.local]
        captured = forms.capturing(conn, settings.queue_name) if verbose else {}
        choices = _copy_choices(conn, settings.queue_name) if verbose else {}
    if names_only:
        if as_json:
            output.as_json([str(t.name) for t in found])
        for table in [] if as_json else found:
            click.echo(str(table.name))
        return
    rows: list[dict[str, Any]] = [
        {
            "table": str(t.name),
            "state": t.state,
            "attributes": dict(t.attrs) if as_json else _attrs(t),
            "here": str(t.dest),
        }
        for t in found
    ]
    columns = ["table", "state", "attributes", "here"]
    if verbose:
        columns += ["trigger", "form", "reason", "copy", "copy_reason"]
        for row, table in zip(rows, found, strict=True):
            how = captured.get(table.dest, forms.Capturing("none"))
            way = choices.get(str(table.name))
            row.update(
                trigger=how.trigger,
                form=how.form,
                reason=how.reason,
                copy=way.mode if way else None,
                copy_reason=way.reason if way else None,
            )
    output.show(columns, rows, json_wanted=as_json)


@click.command()
@options.pass_context
@click.option("--all-nodes", is_flag=True, help="On all nodes, and what to run there.")
@options.json_output
def missing(context: options.Context, all_nodes: bool, as_json: bool) -> int:
    """List tables and sequences that could be replicated here and are not.

    On the root with those that cannot be, and why.
    With --all-nodes those that a node does not keep although its provider does, or keeps although
    its provider does not; the exit code is 1 then if there are any.
    """
    settings = context.settings(NodeSettings)
    if all_nodes:
        return _missing_everywhere(settings, as_json)
    with session(settings.db, name="londiste missing", autocommit=True) as conn:
        node = nodes.get_node_info(conn, settings.queue_name)
        found = registered.local_show_missing(conn, settings.queue_name)
        rows = [{"kind": m.kind, "name": m.name} for m in found]
        if node.type is NodeType.ROOT:
            rows += [
                {"kind": kind, "name": name, "why": _LEFT_OUT[reason]}
                for kind, name, reason in conn.execute(
                    query("left_out"), [settings.queue_name]
                ).fetchall()
            ]
    words = {"r": "table", "S": "sequence"}
    shown = [{**row, "kind": words.get(row["kind"], row["kind"])} for row in rows]
    output.show(["kind", "name", "why"], shown, json_wanted=as_json)
    return 0


_LEFT_OUT = {
    "schema": "cannot be replicated: the name of its schema has a dot, and in a queue the first"
    " dot ends the schema; alter schema … rename to …",
    "unlogged": "cannot be replicated: unlogged, a crash empties it; alter table … set logged",
}


def _missing_everywhere(settings: NodeSettings, as_json: bool) -> int:
    # Imported here: no other command of this file looks at other nodes.
    from londiste.monitor.nodes import collect, rules

    kinds = {"not-kept", "not-above", "unknown-above", "sequence-not-kept"}
    rows = []
    with sites(settings) as where:
        every, silent = collect.everywhere(where, settings.db, settings.queue_name)
    by_name = {node.name: node for node, _ in every}
    for node, provider in every:
        if node.type != "root":
            rows += [
                {"node": node.name, "what": one.what.partition(": ")[2], "do": one.do}
                for one in rules.findings(node, by_name.get(provider), settings.queue_name)
                if one.kind in kinds
            ]
    for name, why in silent:
        output.warning(f"node {name} was not looked at: {why}")
    output.show(["node", "what", "do"], rows, json_wanted=as_json)
    return 1 if rows or silent else 0


def already(plan: CommandPlan, word: str) -> None:
    """Says what is passed over, and why."""
    for name in plan.already:
        output.message(f"{name}: already processed, it is {word}")
    for line in plan.skipped:
        output.warning(f"{line}, skipped")
    for line in plan.notes:
        output.warning(line)


def _progress(found: list[ReplicatedTable]) -> None:
    ok = sum(t.state == "ok" for t in found)
    left = [f"{t.name} {t.state or 'waiting'}" for t in found if t.state != "ok"]
    more = "" if len(left) <= 3 else f" and {len(left) - 3} more"
    output.message(
        f"{ok}/{len(found)} tables in step" + (f"; {', '.join(left[:3])}{more}" if left else "")
    )


def _attrs(table: ReplicatedTable) -> str | None:
    return ", ".join(f"{k}={v}" for k, v in table.attrs.items()) or None
