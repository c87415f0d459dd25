"""``londiste help``: prints the help of a command."""

from __future__ import annotations

from collections.abc import Sequence

import click


@click.command("help")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help_(ctx: click.Context, words: Sequence[str]) -> None:
    """Print the help of a command, or the list of commands."""
    from londiste.cli.errors import unknown_command

    above = ctx.find_root()
    group = above.command
    for word in words:
        found = group.get_command(above, word) if isinstance(group, click.Group) else None
        if found is None:
            known = group.list_commands(above) if isinstance(group, click.Group) else []
            raise unknown_command([word], known, above.command_path)
        above = click.Context(found, info_name=word, parent=above, **found.context_settings)
        group = found
    click.echo(group.get_help(above))
