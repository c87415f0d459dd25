"""``londiste completion``: prints or installs the completion script for a shell."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from londiste.cli import output
from londiste.daemon.files import write_hint
from londiste.errors import BadOption

#: Where each shell looks for scripts of a user, below the directory of XDG_DATA_HOME or
#: XDG_CONFIG_HOME.
_PLACES = {
    "bash": ("XDG_DATA_HOME", ".local/share", "bash-completion/completions/londiste"),
    "zsh": ("XDG_DATA_HOME", ".local/share", "zsh/site-functions/_londiste"),
    "fish": ("XDG_CONFIG_HOME", ".config", "fish/completions/londiste.fish"),
}


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option(
    "--install", is_flag=True, help="Write the script where the shell of this user looks."
)
def completion(shell: str, install: bool) -> None:
    """Print the completion script for a shell, or install it.

    \b
    londiste completion bash --install
    londiste completion bash >> ~/.bashrc
    """
    from londiste.cli import cli

    kind = get_completion_class(shell)
    if kind is None:
        raise BadOption(f"shell {shell}: no completion available", hint="use bash, zsh or fish")
    text = kind(cli, {}, "londiste", "_LONDISTE_COMPLETE").source()
    if not install:
        click.echo(text)
        return
    path = _place(shell)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise BadOption(
            f"{path}: cannot be written: {error.strerror}",
            hint=write_hint(error, f"londiste completion {shell} > FILE"),
        ) from error
    output.message(f"wrote {path}; it works in the next shell")
    if shell == "zsh":
        output.message(f"~/.zshrc must contain, before compinit: fpath=({path.parent} $fpath)")


def _place(shell: str) -> Path:
    variable, default, rest = _PLACES[shell]
    given = os.environ.get(variable, "")
    base = Path(given) if given.startswith("/") else Path.home() / default
    return base / rest
