"""``londiste FILE.ini provider …``: generation 2's commands about the provider of a pair."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cli import options
from londiste.cli.pair.common import RAW, run
from londiste.settings.pair import PROVIDER


@click.command(context_settings=RAW)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@options.pass_context
def provider(context: options.Context, words: Sequence[str]) -> int:
    """Manage the provider of a pair: install, add, remove, tables, seqs, missing, check, …"""
    return run(context, PROVIDER, words)
