"""``londiste selftest``: tests replication between two databases of the user."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import click

from londiste.cli import documents, options, output
from londiste.cli.setup import preflight
from londiste.daemon.files import write_atomically
from londiste.daemon.signals import EXIT_INTERRUPTED, Signals
from londiste.db.names import TableName
from londiste.dsn import with_environment, without_secrets
from londiste.errors import BadOption, TransientError
from londiste.orchestration.connections import Connections
from londiste.replicate.databases import ReplicateSettings, Replication
from londiste.selftest import pair as databases
from londiste.selftest.promises import PROMISES, Breach
from londiste.selftest.report import Report, figures, page
from londiste.selftest.run import SelfTest

EXIT_BROKEN = 1
_FILE = click.Path(path_type=Path, dir_okay=False)


class SelftestSettings(ReplicateSettings):
    """Settings of the worker of a self-test, from a file that is given with ``-c``."""

    sections: ClassVar[tuple[str, ...]] = ("selftest", "londiste")


@click.command()
@options.pass_context
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@click.option(
    "--minutes",
    metavar="MINUTES",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="Duration of the test.",
)
@click.option("--output", "html", metavar="FILE", type=_FILE, help="Write the report as HTML.")
@click.option(
    "--json",
    "json_file",
    metavar="FILE",
    type=_FILE,
    cls=options.JsonOption,
    documents=(Report,),
    help="Write the report as JSON instead of printing it.",
)
@click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(min=0),
    help="Repeat the tables, transactions and steps of an earlier test (default: random).",
)
@click.option("--keep", is_flag=True, help="Keep schemas, nodes and logs for inspection.")
@click.option("--clean", is_flag=True, help="Remove what an earlier test has left, then exit.")
def selftest(
    context: options.Context,
    source: str,
    target: str,
    minutes: float,
    html: Path | None,
    json_file: Path | None,
    seed: int | None,
    keep: bool,
    clean: bool,
) -> int:
    """Test replication between two databases, in schemas of its own.

    SOURCE and TARGET are connection strings. The test creates its own tables, replicates them,
    writes, kills programs and checks each promise. It removes everything at the end. The exit code
    is 0, or 1 if a promise is broken.
    """
    if keep and clean:
        raise BadOption("--keep and --clean exclude each other", hint="give one of the options")
    for path in (html, json_file):
        if path is not None and not path.parent.is_dir():
            raise BadOption(
                f"{path}: no such directory",
                hint=f"create it: mkdir -p {shlex.quote(str(path.parent))}",
            )
    settings = context.settings(SelftestSettings, queue_name=databases.QUEUE)
    source, target = (with_environment(dsn, os.environ) for dsn in (source, target))
    pair = databases.identify(settings, source, target)
    command = " ".join(
        ["londiste selftest", *(shlex.quote(without_secrets(d)) for d in (source, target))]
    )
    if clean:
        _clean(pair)
        return 0
    number = random.randrange(1_000_000) if seed is None else seed
    test = SelfTest(pair, minutes=minutes, seed=number, say=output.message, alarm=_alarm)
    output.message(f"seed {number}; Ctrl-C ends the test and removes everything")

    def check(sites: Connections, names: Sequence[str]) -> None:
        replication = Replication(settings, databases.QUEUE, pair.source, (pair.target,))
        tables = [TableName.parse(name) for name in names]
        preflight.require(preflight.preflight(sites, [replication], tables, allow_code=True))

    try:
        with context.process(settings, stop_timeout=30.0, announced=False) as signals:
            test.live(signals, check)
    finally:
        if not keep:
            with contextlib.closing(Signals(stop_timeout=600.0)) as signals, signals.handled():
                _clear(test, command)
    report = test.report()
    for path, text in (
        (html, page(report)),
        (json_file, documents.dumped(report, ascii_only=False) + "\n"),
    ):
        if path is not None:
            write_atomically(path, text, private=False)
            output.message(f"wrote {path}")
    if json_file is None:
        _print(report)
    output.message(f"result: {report.result}")
    if keep:
        output.message(f"kept schema {databases.SCHEMA}, its nodes and {test.directory}")
        output.next_step(f"{command} --clean")
    elif report.result == "broken":
        output.message(f"logs of the programs: {test.directory}")
        output.next_step(f"{command} --seed {number} --keep")
    if report.result == "interrupted":
        return EXIT_INTERRUPTED
    return EXIT_BROKEN if report.result == "broken" else 0


def _clear(test: SelfTest, command: str) -> None:
    try:
        test.clear()
    except TransientError as error:
        error.say_more(
            "what the self-test has created is still there",
            f"when the servers answer: {command} --clean",
        )
        raise


def _clean(pair: databases.Pair) -> None:
    with pair.sites() as sites:
        databases.be_alone(sites, pair)
        removed = databases.remove(sites, pair, output.warning)
    output.message("removed what a self-test had left" if removed else "nothing to remove")


def _alarm(breach: Breach) -> None:
    output.warning(f"BROKEN PROMISE: {PROMISES[breach.promise]}")
    for word, text in (("what", breach.what), ("where", breach.where), ("next", breach.next)):
        output.message(f"{word}: {text}")


def _print(report: Report) -> None:
    output.table(
        ("promise", "checks", "result"),
        [(one.text, one.checks, one.result) for one in report.promises],
    )
    click.echo()
    output.table(
        ("step", "times", "longest_s"),
        [(one.step, one.times, one.not_possible or one.longest) for one in report.steps],
    )
    click.echo()
    output.table(("figure", "value"), figures(report.measured))
