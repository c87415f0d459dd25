"""``londiste completion``: prints the completion script for a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from londiste.errors import BadOption


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    \b
    londiste completion bash >> ~/.bashrc
    """
    from londiste.cli import cli

    kind = get_completion_class(shell)
    if kind is None:
        raise BadOption(f"shell {shell}: no completion available", hint="use bash, zsh or fish")
    click.echo(kind(cli, {}, "londiste", "_LONDISTE_COMPLETE").source())
