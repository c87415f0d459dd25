"""``queue_mover``, ``queue_splitter``: the programs of these names, as in generation 2."""

from __future__ import annotations

import sys

from londiste.cli.consumer_cli import command
from londiste.cli.entry.common import Registering
from londiste.cli.errors import run
from londiste.tools.queue_mover import QueueMover
from londiste.tools.queue_splitter import QueueSplitter


def queue_mover() -> None:
    """Runs the queue mover and ends the process."""
    tool = command(QueueMover, name="queue_mover", program=Registering)
    sys.exit(run(tool, sys.argv[1:], name="queue_mover"))


def queue_splitter() -> None:
    """Runs the queue splitter and ends the process."""
    tool = command(QueueSplitter, name="queue_splitter", program=Registering)
    sys.exit(run(tool, sys.argv[1:], name="queue_splitter"))
