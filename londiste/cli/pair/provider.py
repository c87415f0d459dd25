"""``londiste FILE.ini provider …``: generation 2's commands about the provider of a pair."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cli import options
from londiste.cli.pair.common import RAW, of_side, run
from londiste.replication.commands.triggers import fire_for_replication
from londiste.settings import NodeSettings
from londiste.settings.pair import PROVIDER


@click.command(context_settings=RAW)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@options.pass_context
def provider(context: options.Context, words: Sequence[str]) -> int:
    """Manage the provider of a pair: install, add, remove, tables, seqs, missing, check, …"""
    code = run(context, PROVIDER, words)
    if words[:1] == ("add",) and "--dry-run" not in words:
        fire_for_replication(of_side(context, PROVIDER).settings(NodeSettings))
    return code
