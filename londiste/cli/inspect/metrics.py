"""``londiste metrics``: prints metrics once, the alert rules, or the dashboard."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

import click

from londiste.cli import options, start
from londiste.cli.output import exact
from londiste.daemon.files import atomic_file, write_hint
from londiste.errors import BadOption, LondisteError
from londiste.metrics import collect, exposition, samples
from londiste.metrics.cache import Outcome
from londiste.metrics.catalog import Sample
from londiste.metrics.collect import Counted
from londiste.monitor.place import Place
from londiste.settings import WorkerSettings


@click.command()
@click.option("--once", is_flag=True, help="Print the metrics of the cascade.")
@click.option(
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --once: replace this file in one step.",
)
@click.option("--rules", is_flag=True, help="Print the alert rules for Prometheus (YAML).")
@click.option("--dashboard", is_flag=True, help="Print the dashboard for Grafana (JSON).")
@options.pass_context
def metrics(
    context: options.Context, once: bool, output: Path | None, rules: bool, dashboard: bool
) -> None:
    """Print metrics, alert rules or a dashboard.

    With --once: for the textfile collector of node_exporter, the same as /metrics of londiste run.
    If no node answers, londiste_collect_success is 0, and the command fails.
    """
    if once + rules + dashboard != 1:
        raise BadOption(
            "give one of --once, --rules and --dashboard", hint="londiste metrics --once"
        )
    if output is not None and not once:
        raise BadOption("--output requires --once", hint="londiste metrics --once --output FILE")
    if rules or dashboard:
        name = "rules.yml" if rules else "dashboard.json"
        shipped = resources.files("londiste.metrics") / "share" / name
        click.echo(shipped.read_text(encoding="utf-8"), nl=False)
        return
    exposition.require()
    try:
        places = start.places(context.config, context.node, context.overrides)
        found = Counted(collect.cascade(places or [Place.of(context.settings(WorkerSettings))]))
    except LondisteError:
        write(output, list(samples.process(Outcome(None, ok=False, age=0.0, seconds=0.0))))
        raise
    done: Outcome[Counted] = Outcome(found, ok=True, age=0.0, seconds=0.0)
    write(output, [*samples.process(done), *samples.cascade(found)])


def write(output: Path | None, found: list[Sample]) -> None:
    """Prints the samples, or replaces a file: its readers never see a part."""
    text = exposition.render(found)
    if output is None:
        exact(text)
        return
    try:
        with atomic_file(output) as file:
            file.write(text.decode())
            # Another user reads it.
            os.fchmod(file.fileno(), 0o644)
    except OSError as error:
        raise BadOption(
            f"{output}: cannot be written: {error.strerror}",
            hint=write_hint(
                error, "choose a directory that exists: londiste metrics --once --output FILE"
            ),
        ) from error
