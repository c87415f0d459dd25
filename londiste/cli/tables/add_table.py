"""``londiste add-table``: tables are replicated from now on."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cli import options, output
from londiste.cli.plan_output import execute_plan, sites
from londiste.cli.tables.common import already, copy_node_of, progress, table_names
from londiste.db.names import TableName
from londiste.errors import BadOption
from londiste.handlers import registry
from londiste.handlers.table_rules import POLICIES, HandlerAttrs
from londiste.replication.commands import add_table as adding
from londiste.replication.model import COPY_MODES, MERGE_ALL, NO_MERGE, TableOptions
from londiste.replication.registration_filter import RegistrationFilter
from londiste.replication.tablesync import wait
from londiste.settings import NodeSettings


@click.command("add-table")
@options.pass_context
@table_names
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
        copy_node=copy_node_of(find_copy_node, copy_node),
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
                progress=progress,
                trouble=output.warning,
            )


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
