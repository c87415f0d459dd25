"""``londiste add-table``: starts the replication of tables."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeInfo, NodeType
from londiste.cli import options, output
from londiste.cli.plan_output import changing_sites, execute_plan
from londiste.cli.tables.common import (
    already,
    copy_node_of,
    copy_node_option,
    find_copy_node_option,
    nothing_replicated,
    table_names,
    timeout_option,
    wait_option,
    wait_until_synced,
)
from londiste.db.names import TableName
from londiste.errors import BadOption
from londiste.handlers import registry
from londiste.handlers.table_rules import POLICIES, RESOLUTIONS, HandlerAttrs
from londiste.monitor.doctor.preflight import table_findings
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.replication import sqlapi as tables
from londiste.replication.commands import add_table as adding
from londiste.replication.model import COPY_MODES, MERGE_ALL, NO_MERGE, TableOptions
from londiste.replication.registration_filter import RegistrationFilter
from londiste.settings import NodeSettings


class _Resolution(click.Choice[str]):
    """A conflict resolution, or the policy that is stored for it; the value is the policy."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in POLICIES:
            return value
        return RESOLUTIONS[super().convert(value, param, ctx)]


@click.command("add-table")
@options.pass_context
@table_names
@click.option("--all", "every", is_flag=True, help="Add all tables that londiste missing lists.")
@click.option(
    "--expect-sync", is_flag=True, help="Skip the initial copy; the target already has the rows."
)
@click.option(
    "--skip-truncate", is_flag=True, help="Copy without truncating the target table first."
)
@click.option(
    "--dest-table",
    metavar="NAME",
    help="Name of the target table, if it differs from the provider's.",
)
@click.option(
    "--create",
    is_flag=True,
    help="Create missing tables with columns, their types and sequences, and primary key.",
)
@click.option(
    "--create-full",
    is_flag=True,
    help="Create missing tables with indexes, constraints and grants of the provider.",
)
@click.option("--create-without", metavar="PARTS", help="Parts that --create-full excludes.")
@click.option(
    "--create-needs",
    is_flag=True,
    help="Create missing functions and extensions that --create-full needs.",
)
@click.option(
    "--allow-code",
    is_flag=True,
    help="Accept rules, functions and triggers of the provider that run when rows are written.",
)
@click.option(
    "--trigger",
    type=click.Choice(["capture", "logutriga", "jsontriga", "sqltriga"]),
    help="Trigger function that captures changes (default: Londiste's native capture).",
)
@click.option(
    "--form",
    type=click.Choice(["row", "statement", "auto"]),
    help="Capture mode of the native capture: see londiste change-form.",
)
@click.option(
    "--trigger-flags",
    default="",
    metavar="LETTERS",
    help="Flags of the trigger: B/A timing, I/U/D operations, S skip, C/Q/L/J function.",
)
@click.option(
    "--trigger-arg",
    "trigger_args",
    multiple=True,
    metavar="ARG",
    help="Argument of the trigger, for example pkey=a,b; repeatable.",
)
@click.option(
    "--copy-mode",
    type=click.Choice(COPY_MODES),
    help="Copy mode: one snapshot, resumable, or chosen by rule (auto).",
)
@find_copy_node_option
@copy_node_option
@click.option(
    "--merge-all", is_flag=True, help="Fill the table from all queues with a leaf in this database."
)
@click.option("--no-merge", is_flag=True, help="Fill the table from this queue only.")
@click.option(
    "--max-parallel-copy",
    metavar="N",
    type=click.IntRange(min=1),
    help="Maximum parts of a merged table that are copied in parallel.",
)
@click.option(
    "--where",
    default="",
    metavar="CONDITION",
    help="Replicate only rows that match this SQL condition.",
)
@click.option(
    "--unique-keys",
    is_flag=True,
    help="Allow a row filter with several sources: all rows of all sources have different keys.",
)
@click.option("--columns", metavar="A,B", help="Replicate only these columns.")
@click.option("--skip-columns", metavar="A,B", help="Replicate all columns except these.")
@click.option(
    "--handler",
    default="",
    metavar="NAME",
    help="Handler of the tables: see londiste show-handlers.",
)
@click.option(
    "--handler-arg",
    "handler_args",
    multiple=True,
    metavar="OPTION=VALUE",
    help="Option of the handler; repeatable.",
)
@click.option(
    "--on-error",
    type=_Resolution(list(RESOLUTIONS)),
    default="error",
    help="Conflict resolution: see londiste change-policy.",
)
@click.option("--no-triggers", is_flag=True, help="Create no trigger on this node.")
@click.option(
    "--insert-only", is_flag=True, help="Accept tables without key; only INSERT is replicated."
)
@click.option("--no-sequences", is_flag=True, help="Exclude the sequences of the table's columns.")
@click.option(
    "--whole-row",
    is_flag=True,
    help="Match UPDATE and DELETE by all columns in tables without key.",
)
@click.option(
    "--skip-non-existing", is_flag=True, help="Skip tables that do not exist on this node."
)
@options.flag(
    "--ignore-missing",
    "Add the table even if the provider does not replicate it.",
    londiste3="--force",
)
@options.flag(
    "--ignore-old-workers",
    "Use the native capture even if a worker of Londiste 3 may still read the queue.",
    londiste3="--force",
)
@wait_option
@timeout_option
@options.changes
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
    allow_code: bool,
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
    unique_keys: bool,
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
    ignore_missing: bool,
    ignore_old_workers: bool,
    wait_sync: bool,
    timeout: float | None,
    how: options.Execution,
) -> None:
    """Replicate tables, with the sequences of their columns.

    On the root: changes are captured into the queue from now on. On other nodes: the worker copies
    the tables and then applies their changes. TABLE may contain * and ?; without a dot it is in
    schema public.
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
        # That option says what it creates.
        allow_code=allow_code or create_needs,
        trigger=trigger or "",
        form=form or "",
        trigger_flags=trigger_flags,
        trigger_args=tuple(trigger_args),
        triggers=not no_triggers,
        insert_only=insert_only,
        sequences=not no_sequences,
        whole_row=whole_row,
        copy_mode=copy_mode or "",
        copy_node=copy_node_of(find_copy_node, copy_node),
        merge=_merge(merge_all, no_merge),
        max_parallel_copy=max_parallel_copy,
        unique_keys=unique_keys,
        choice=HandlerAttrs(
            stored,
            where.strip(),
            _listed("--columns", columns),
            _listed("--skip-columns", skip_columns),
            on_error,
        ),
    )
    with changing_sites(settings) as reach:
        plan = adding.plan(
            reach,
            settings.db,
            settings.queue_name,
            names,
            wanted,
            every=every,
            force=ignore_missing,
            ignore_old_workers=ignore_old_workers,
            skip_non_existing=skip_non_existing,
            wanted=RegistrationFilter.of(settings),
        )
        already(plan, "added")
        if plan.already and (form or trigger):
            option = "--form" if form else "--trigger"
            output.warning(
                f"{option} has no effect on tables that are already added; londiste tables -v shows"
                " their capture, londiste change-form changes it"
            )
        if plan.already and on_error != "halt":
            output.warning(
                "--on-error has no effect on tables that are already added: londiste change-policy"
            )
        if plan.already and (where or columns or skip_columns or handler):
            output.warning(
                "a filter or handler has no effect on tables that are already added: londiste"
                " change-handler"
            )
        _examine(reach, settings, plan.steps)
        added = execute_plan(plan.steps, reach, how)
        if not (plan.steps or plan.already or how.explain):
            output.message("nothing to add")
        if added and not wait_sync:
            output.next_step(_next(nodes.get_node_info(reach.at(settings.db), settings.queue_name)))
        if wait_sync and not how.explain:
            local = reach.at(settings.db)
            if not any(t.local for t in tables.get_table_list(local, settings.queue_name)):
                raise nothing_replicated(
                    nodes.get_node_info(local, settings.queue_name), "londiste missing"
                )
            wait_until_synced(local, settings, timeout)


def _examine(reach: Connections, settings: NodeSettings, steps: Sequence[Step]) -> None:
    """Prints findings about the tables that are added under their own names."""
    names = [one.table for one in adding.additions(steps) if one.table == one.dest]
    local = reach.at(settings.db)
    node = nodes.get_node_info(local, settings.queue_name)
    root = node.type is NodeType.ROOT
    provider = None if root else reach.at(reach.reach(node.provider_location, node.provider))
    output.advise(table_findings(local, provider, names))


def _next(node: NodeInfo) -> str:
    if node.type is NodeType.ROOT:
        return "the same command on each node below, with --create where the table is missing"
    return "londiste wait-sync"


def _merge(every: bool, alone: bool) -> str:
    """The word for ``local_add_table``; '' without either option."""
    if every and alone:
        raise BadOption(
            "--merge-all and --no-merge exclude each other", hint="give one of the two options"
        )
    return MERGE_ALL if every else NO_MERGE if alone else ""


def _listed(option: str, text: str | None) -> tuple[str, ...]:
    """The names of a list of columns; empty for None."""
    if text is None:
        return ()
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise BadOption(f"{option} {text}: a name is missing", hint=f"write {option} a,b")
    return names
