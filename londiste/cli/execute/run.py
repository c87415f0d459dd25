"""``londiste execute [run] FILE...``: runs scripts on the root, which sends them to all nodes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from londiste.cli import options, output
from londiste.cli.documents import Done, Rows
from londiste.cli.plan_output import changing_sites, reported
from londiste.errors import BadOption
from londiste.orchestration.connections import Connections
from londiste.replication.ddl import publish
from londiste.replication.ddl import report as survey
from londiste.replication.ddl.report import Explained
from londiste.settings import NodeSettings

SCRIPTS = Rows("scripts", Explained)


@click.command()
@options.pass_context
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option(
    "--sql", "texts", multiple=True, metavar="SQL", help="SQL text of a script; repeatable."
)
@click.option("--name", metavar="NAME", help="Name of the script of --sql or standard input.")
@click.option("--local", is_flag=True, help="Run on this node only, which must not be the root.")
@options.seconds("--timeout", "Maximum seconds to retry locks that are not granted.")
@click.option(
    "--volatile",
    is_flag=True,
    help="Accept now(), random(), sequences and the like; rows may differ between nodes.",
)
@options.explain
@options.json_output(SCRIPTS, Done)
def run(
    context: options.Context,
    files: Sequence[str],
    texts: Sequence[str],
    name: str | None,
    local: bool,
    timeout: float,
    volatile: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Run scripts on the root; every node below runs them, too, in order with the rows.

    All files are one transaction, unless a statement cannot run in one. FILE may be - for standard
    input. A script is identified by its file name and runs once: repeat an interrupted command.
    """
    settings = context.settings(NodeSettings)
    planned = publish.plan(_scripts(files, texts, name))

    def runner(where: Connections, report: Callable[[str], None]) -> publish.Runner:
        return publish.Runner(
            where,
            settings.db,
            settings.queue_name,
            local,
            settings.execute_lock_timeout,
            timeout,
            settings.answer_seconds,
            report,
            volatile,
        )

    if not explain:
        with changing_sites(settings, bounded=True) as where, reported(as_json) as report:
            runner(where, report).run(planned)
        return
    with changing_sites(settings, bounded=True) as where:
        runner(where, lambda line: None).check(planned)
    found = survey.explain(
        settings.db,
        settings.queue_name,
        planned,
        extra=settings.remote_extra_connstr,
        local=local,
    )
    _show(found, as_json=as_json)


def _scripts(files: Sequence[str], texts: Sequence[str], name: str | None) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for path in files:
        if path == "-":
            text = sys.stdin.read()
            found.append((name or publish.name_of(text), text))
        else:
            found.append(publish.from_file(path, _read))
    found += [(name or publish.name_of(text), text) for text in texts]
    if not found:
        raise BadOption("no script given", hint="name files, or use --sql 'alter table …'")
    unnamed = len(texts) + sum(path == "-" for path in files)
    if name is not None and unnamed != 1:
        raise BadOption(
            f"--name given with {unnamed} scripts without a file",
            hint="use --name with one script of --sql or standard input",
        )
    return found


def _read(path: str) -> bytes:
    return Path(path).read_bytes()


def _show(found: Sequence[Explained], *, as_json: bool) -> None:
    if as_json:
        output.as_json({SCRIPTS.key: found})
        return
    for one in found:
        click.echo(output.cell(f"script {one.script}: {one.runs}"))
        output.table(
            ["line", "statement", "table", "lock", "keeps_out", "reads", "rewrites", "replicated"],
            [
                (
                    s.line,
                    s.statement,
                    s.table or None,
                    s.lock,
                    s.keeps_out or None,
                    s.reads,
                    s.rewrites,
                    s.replicated,
                )
                for s in one.statements
            ],
        )
        output.table(["node", "what"], [(on.node, on.what) for on in one.nodes])
        click.echo()
