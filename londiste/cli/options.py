"""Options that several commands share, and what a command knows about its call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from londiste import settings
from londiste.cli import output
from londiste.errors import BadOption

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound=settings.Settings)


@dataclass(frozen=True)
class Context:
    """What stands in front of the command's name."""

    config: Path | None
    quiet: bool
    verbose: int
    overrides: dict[str, str]

    @classmethod
    def make(
        cls, config: str | None, *, quiet: bool, verbose: int, overrides: Sequence[str]
    ) -> Context:
        """Checks the form of ``--set``; nothing is read yet."""
        pairs: dict[str, str] = {}
        for item in overrides:
            key, equals, value = item.partition("=")
            if not equals or not key.strip():
                raise BadOption(
                    f"--set {item}: not KEY=VALUE", hint="write --set poll_interval=0.5"
                )
            pairs[key.strip()] = value.strip()
        output.be_quiet(quiet)
        return cls(Path(config) if config else None, quiet, verbose, pairs)

    def settings(self, kind: type[S], **given: Any) -> S:
        """The settings of a command: file, then environment, then ``--set``, then ``given``.

        ``given`` are the command's own options; None means not given.
        """
        chosen = {key: value for key, value in given.items() if value is not None}
        found = settings.load(kind, self.config, {**self.overrides, **chosen})
        if isinstance(found, settings.NodeSettings):
            from londiste.handlers import registry

            registry.load(found.handler_modules)
            registry.configure({"obfuscator_key": found.obfuscator_key})
        return found


def json_output(function: F) -> F:
    """``--json``: the result as one JSON document on stdout."""
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(
        function
    )


def explain(function: F) -> F:
    """``--explain``: print what would be done."""
    return click.option("--explain", is_flag=True, help="Print the steps, touch nothing.")(function)


def database(function: F) -> F:
    """``--db``: a connection string instead of the file's."""
    return click.option(
        "--db", metavar="DSN", help="Connection string of the database; overrides the settings."
    )(function)


def daemon(function: F) -> F:
    """``-d -r -s -k``: as a daemon; reload, stop or kill the running one."""
    for flag, name, text in (
        ("-k", "--kill", "Stop the running daemon at once (SIGTERM)."),
        ("-s", "--stop", "Stop the running daemon after its batch (SIGINT)."),
        ("-r", "--reload", "Let the running daemon read its settings again (SIGHUP)."),
        ("-d", "--daemon", "Go into the background (needs a pidfile)."),
    ):
        function = click.option(flag, name, is_flag=True, help=text)(function)
    return function


pass_context = click.make_pass_decorator(Context)
