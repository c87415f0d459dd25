"""``londiste doctor``: examines one or two databases before, or during, replication."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict

import click

from londiste.cascade import sqlapi as nodes
from londiste.cli import options, output
from londiste.cli.plan_output import sites
from londiste.dsn import without_secrets
from londiste.errors import BadOption, LondisteError
from londiste.monitor.catalog import page
from londiste.monitor.doctor.examine import examine
from londiste.monitor.doctor.fix_script import fix_script
from londiste.monitor.queues.model import Finding
from londiste.monitor.queues.rules import worst
from londiste.settings import WorkerSettings, cascade_file


class DoctorFinding(TypedDict):
    """A finding.

    side -- source or target.
    object -- a table, a role, and so on.
    sql -- statements that fix it there.
    admin -- they need an administrator.
    command -- that fixes it.
    page -- the address of its explanation.
    """

    severity: str
    id: str
    side: str
    object: str
    what: str
    why: str
    do: str
    sql: list[str]
    admin: bool
    command: str
    page: str


class Findings(TypedDict):
    """The findings, the worst first."""

    findings: list[DoctorFinding]


@click.command()
@click.argument("source", required=False)
@click.argument("target", required=False)
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="PATTERN",
    help="Examine only these tables; repeatable (default: all).",
)
@click.option(
    "--exclude", multiple=True, metavar="PATTERN", help="Ignore these tables; repeatable."
)
@click.option(
    "--engine",
    type=click.Choice(["spark", "local"]),
    help="Engine of the copies (default: of the settings).",
)
@click.option("--start-spark", is_flag=True, help="Start Spark as well, which takes some seconds.")
@click.option("--fix-sql", is_flag=True, help="Print the remedies as a script for psql.")
@options.json_output(Findings)
@options.pass_context
def doctor(
    context: options.Context,
    source: str | None,
    target: str | None,
    tables: Sequence[str],
    exclude: Sequence[str],
    engine: str | None,
    start_spark: bool,
    fix_sql: bool,
    as_json: bool,
) -> int:
    """Find what would stop or harm replication from SOURCE to TARGET.

    SOURCE and TARGET are connection strings. Without them: the database of the settings file and
    its provider. Writes to no database. Each finding contains its fix. The exit code is 0, 1
    (warnings) or 2 (critical).
    """
    if fix_sql and as_json:
        raise BadOption(
            "--fix-sql and --json exclude each other",
            hint="--json contains the SQL of each finding",
        )
    settings = None
    if source is None or context.config is not None:
        if source is not None:
            context = _of_node(context, target or source)
        settings = context.settings(WorkerSettings, engine=engine, db=target or source)
        engine = settings.engine
    if source is None:
        assert settings is not None
        source, target = _of_the_settings(settings)
    found = examine(
        source,
        target,
        tables,
        exclude=exclude,
        engine="spark" if start_spark else engine or WorkerSettings.model_fields["engine"].default,
        start_spark=start_spark,
        read_from=settings.read_from if settings is not None else "",
    )
    if as_json:
        output.as_json(Findings(findings=[as_row(one) for one in found]))
    elif fix_sql:
        sides = {"source": without_secrets(source)}
        if target is not None:
            sides["target"] = without_secrets(target)
        click.echo(fix_script(found, sides), nl=False)
        left = sum(not one.sql for one in found)
        if left:
            output.message(f"findings without SQL: {left}; londiste doctor shows them")
    else:
        output.findings(found, ids=True)
        output.message(_summary(found))
    return int(worst(found))


def _of_node(context: options.Context, dsn: str) -> options.Context:
    """The context of the node in this database, if a cascade's file has it and none is named."""
    file = cascade_file.read(context.config) if context.config is not None else None
    if file is None or context.node is not None:
        return context
    return replace(context, node=file.at(dsn))


def _of_the_settings(settings: WorkerSettings) -> tuple[str, str | None]:
    """The provider and the node of a settings file; the database alone where it has no provider."""
    with sites(settings, bounded=True) as reach:
        above = settings.initial_provider_location
        # A database that is not reached, or not a node yet, is examined as one.
        with contextlib.suppress(LondisteError):
            node = nodes.find_node_info(reach.at(settings.db), settings.queue_name)
            if node is not None:
                above = "" if node.provider == node.name else node.provider_location
        return (reach.reach(above), settings.db) if above else (settings.db, None)


def as_row(one: Finding) -> DoctorFinding:
    """A finding for ``--json``."""
    return {
        "severity": one.severity.word,
        "id": one.kind,
        "side": one.side,
        "object": one.object,
        "what": one.what,
        "why": one.why,
        "do": one.do,
        "sql": list(one.sql),
        "admin": one.admin,
        "command": one.command,
        "page": page(one.kind, doctor=True),
    }


def _summary(found: Sequence[Finding]) -> str:
    if not found:
        return "no findings"
    return "1 finding" if len(found) == 1 else f"{len(found)} findings"
