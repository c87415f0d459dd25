"""Plan of a cascade file, as ``londiste plan`` and ``apply`` compute and print it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click

from londiste import settings
from londiste.cascadefile.action import NEED_DAEMONS, REMOVALS, Action, PlannedAction
from londiste.cascadefile.checks import require_possible
from londiste.cascadefile.created_code import with_code
from londiste.cascadefile.decide import CascadeState, decide
from londiste.cascadefile.state import Reader
from londiste.cascadefile.wanted import WantedTables, wanted
from londiste.cli import options, output
from londiste.cli.documents import Rows
from londiste.cli.errors import printable
from londiste.cli.plan_output import sites
from londiste.orchestration.connections import Connections
from londiste.replication.commands.create_table import listed
from londiste.settings import NodeSettings
from londiste.settings.cascade_file import CascadeFile

ACTIONS = Rows("actions", PlannedAction)

copy_rate = click.option(
    "--copy-rate",
    metavar="MB",
    default=50.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Assumed speed of copies in MB per second, for the estimated time.",
)


@dataclass(frozen=True)
class Planned:
    """A file, the state of its databases, and the actions between them."""

    context: options.Context
    file: CascadeFile
    where: Connections
    state: CascadeState
    tables: WantedTables | None
    actions: Sequence[Action]

    def settings(self, node: str) -> NodeSettings:
        """The settings of a node of the file."""
        return settings.load(NodeSettings, self.file.path, self.context.overrides, node=node)


@contextlib.contextmanager
def planned(context: options.Context) -> Iterator[Planned]:
    """Reads file and databases, and decides; changes nothing."""
    file = context.cascade_file()
    of_root = dataclasses.replace(context, node=file.root.name).settings(NodeSettings)
    with sites(of_root) as where:
        with where.answering(of_root.answer_seconds):
            reader = Reader(where, file, extra=of_root.remote_extra_connstr)
            tables = wanted(file, reader.existing, reader.sequences)
            state = reader.state()
            actions = decide(file, state, tables)
            if reader.root is not None:
                require_possible(where.at(reader.root), file, actions)
                actions = with_code(where, file, state, reader.root, actions)
        yield Planned(context, file, where, state, tables, actions)


def show(actions: Sequence[Action], rate: float, *, json_wanted: bool) -> None:
    """Prints the actions with their locks, copies and losses."""
    per_second = round(rate * 1_000_000)
    if json_wanted:
        output.as_json({ACTIONS.key: [action.as_json(per_second) for action in actions]})
        return
    if not actions:
        click.echo("nothing to do: the databases are like the file")
        return
    for number, action in enumerate(actions, 1):
        click.echo(f"{number}. {printable(action.describe())}")
        for word, text in (
            ("locks", action.locks() if action.locks() != "none" else ""),
            ("copies", action.copies(per_second)),
            ("loses", action.loses()),
            ("needs", "ticker and workers running" if action.kind in NEED_DAEMONS else ""),
            ("needs", "--allow-remove" if action.kind in REMOVALS else ""),
            ("needs", "--allow-unfiltered" if action.exposes else ""),
            (
                "needs",
                f"allow_code = true in [tables], to accept {listed(action.code)}"
                if action.code
                else "",
            ),
        ):
            if text:
                click.echo(f"   {word}: {printable(text)}")
