"""``londiste status``: shows the tree of nodes, once or repeatedly."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import click

from londiste.cli import options, output, start
from londiste.cli.errors import pasteable
from londiste.cli.live_view import again_and_again
from londiste.errors import BadOption, LondisteError
from londiste.monitor import status as monitor
from londiste.monitor import tree_view, verdict
from londiste.monitor.catalog import ShownFinding
from londiste.monitor.catalog import shown as explained
from londiste.monitor.place import Place, first_answer
from londiste.monitor.queues.model import Limits
from londiste.monitor.queues.rules import worst
from londiste.monitor.status import NodeStatus, Status
from londiste.monitor.verdict import Allowed
from londiste.settings import WorkerSettings

#: Exit code of ``--check`` when the state is unknown.
EXIT_UNKNOWN = 3

if TYPE_CHECKING:
    _FloatType = click.ParamType[float]
else:
    _FloatType = click.ParamType  # generic from click 8.4

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Span(_FloatType):
    """Seconds, or a number with the unit s, m, h or d."""

    name = "seconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        text = str(value)
        unit = _UNITS.get(text[-1:])
        try:
            seconds = float(text[:-1]) * unit if unit else float(text)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds < 1e9:
            self.fail(f"{text!r} is not a number of seconds above 0, such as 60, 60s or 5m")
        return seconds


class Checked(TypedDict):
    """With `--check`: the verdict, and why.

    severity -- ok, warning, critical, or unknown for a reason.
    """

    severity: str
    findings: list[ShownFinding]
    nodes: list[NodeStatus]
    reason: NotRequired[str]


@click.command()
@options.pass_context
@click.option("--compact", is_flag=True, help="Print one line per node.")
@click.option(
    "--watch",
    type=click.FloatRange(min=0.1),
    is_flag=False,
    flag_value=2.0,
    metavar="[SECONDS]",
    help="Refresh every 2 seconds (q or Ctrl-C to quit).",
)
@click.option(
    "--check",
    is_flag=True,
    help="Print one line with perfdata; exit code 0 ok, 1 warning, 2 critical, 3 unknown.",
)
@click.option(
    "--max-lag",
    type=Span(),
    metavar="SECONDS",
    help="With --check: maximum lag of a node, also 60s, 5m or 1h (default 60).",
)
@click.option(
    "--max-backlog",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --check: maximum events a node is behind (default: no limit).",
)
@options.json_output(Status, Checked)
def status(
    context: options.Context,
    compact: bool,
    watch: float | None,
    check: bool,
    max_lag: float | None,
    max_backlog: int | None,
    as_json: bool,
) -> int:
    """Show the tree of nodes with tables, lag, watermarks and changes under way.

    Tables: in sync / being copied / not replicated on the node. A node that does not answer is
    shown as dead. Daemons that do not run are named, and an event that stops the worker. Lag: idle,
    or the ticks, events and seconds that are missing. Watermarks: the last tick that the node and
    the nodes below it have finished, and that all nodes have finished. A node that prevents queue
    rotation for more than ten minutes is named. Large batches: the threshold for parallel apply,
    and how the last large batch of each node was applied. With --watch: refreshed in place on a
    terminal, printed repeatedly elsewhere; with --json one document per line and refresh.

    With the file of a whole cascade and without --node: as the first node that answers knows it.

    With --check: for a monitor, with all that is wrong in the cascade. Ten times a limit is
    critical.
    """
    if not check and (max_lag is not None or max_backlog is not None):
        raise BadOption(
            "--max-lag and --max-backlog require --check", hint="londiste status --check"
        )
    if check:
        if watch is not None or compact:
            raise BadOption(
                "--check cannot be combined with --watch or --compact",
                hint="londiste status --check",
            )
        return _check(context, Allowed(max_lag or Allowed().lag, max_backlog), as_json=as_json)
    settings = context.settings(WorkerSettings)
    places = _places(context, settings)

    def collect() -> Status:
        return dataclasses.replace(
            _asked(context, places),
            large_from=settings.parallel_apply_min_events,
            engine=settings.engine,
        )

    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def draw(found: Status) -> list[str]:
        view = tree_view.compact if compact else tree_view.tree
        lines = view(_pasteable(found), lambda text: f"{_RED}{text}{_PLAIN}")
        return shown(lines, colour=colour)

    if watch is None:
        found = collect()
        if as_json:
            output.as_json(found)
        else:
            click.echo("\n".join(draw(found)))
        return 0

    def look() -> list[str]:
        try:
            return draw(collect())
        except LondisteError as error:
            return shown([f"error: {error.message}"], colour=False)

    if as_json:
        again_and_again(watch, lambda: output.as_json(collect()))
    else:
        again_and_again(watch, lambda: [f"{datetime.now():%Y-%m-%d %H:%M:%S}", *look()])
    return 0


def _pasteable(found: Status) -> Status:
    """With the options of the call in commands that are given anywhere, not on a node."""
    nodes = tuple(
        dataclasses.replace(
            one,
            operation=dataclasses.replace(one.operation, command=pasteable(one.operation.command)),
        )
        if one.operation is not None
        else one
        for one in found.nodes
    )
    return dataclasses.replace(found, nodes=nodes)


#: What stands for the colour until all control characters of other texts are gone.
_RED, _PLAIN = "\ue000", "\ue001"


def shown(lines: Iterable[str], *, colour: bool) -> list[str]:
    """Lines without control characters, which names and errors may contain."""
    codes = {_RED: "\x1b[31m", _PLAIN: "\x1b[0m"} if colour else {_RED: "", _PLAIN: ""}
    return [
        "".join(
            codes[c] if c in codes else c if c.isprintable() else f"\\x{ord(c):02x}" for c in line
        )
        for line in lines
    ]


def _places(context: options.Context, settings: WorkerSettings) -> list[Place]:
    """The nodes to ask, in this order: those of a cascade's file, or the one of the settings."""
    named = start.places(context.config, context.node, context.overrides)
    return named or [start.place(context.config, settings)]


def _asked(context: options.Context, places: Sequence[Place]) -> Status:
    """The cascade as the first node that answers knows it."""
    found = first_answer(
        places,
        lambda at: monitor.collect(
            at.dsn, at.queue, extra=at.extra, limits=Limits(), in_file=at.in_file
        ),
    )

    command = start.worker_command(context.config, context.overrides)

    def startable(node: NodeStatus) -> NodeStatus:
        begin = command(node.name, found.local)
        return dataclasses.replace(
            node,
            daemons=tuple(
                dataclasses.replace(one, start=begin) if one.kind == "worker" else one
                for one in node.daemons
            ),
        )

    return dataclasses.replace(found, nodes=tuple(map(startable, found.nodes)))


def _check(context: options.Context, allowed: Allowed, *, as_json: bool) -> int:
    """One line for a monitor; the exit code of its verdict."""
    try:
        found = _asked(context, _places(context, context.settings(WorkerSettings)))
    except LondisteError as error:
        text = " ".join(error.message.replace("|", "/").split())
        if as_json:
            output.as_json(Checked(severity="unknown", findings=[], nodes=[], reason=text))
        else:
            click.echo(output.cell(f"LONDISTE UNKNOWN - {text}"))
        return EXIT_UNKNOWN
    problems = verdict.findings(found, allowed)
    if as_json:
        output.as_json(
            Checked(
                severity=worst(problems).word,
                findings=explained(problems),
                nodes=list(found.nodes),
            )
        )
    else:
        click.echo(output.cell(verdict.one_line(found, problems, allowed)))
    return int(worst(problems))
