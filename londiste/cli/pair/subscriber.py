"""``londiste FILE.ini subscriber …``: generation 2's commands about the subscriber of a pair."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cli import options
from londiste.cli.pair.common import RAW, run
from londiste.settings.pair import SUBSCRIBER


@click.command(context_settings=RAW)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@options.pass_context
def subscriber(context: options.Context, words: Sequence[str]) -> int:
    """Manage the subscriber of a pair: install, add, remove, tables, resync, missing, check, …"""
    return run(context, SUBSCRIBER, words)
