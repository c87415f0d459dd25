"""Options that several commands share, and the context of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    """The options before the command's name."""

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
                    f"--set {item}: must be KEY=VALUE", hint="write --set poll_interval=0.5"
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


class Renamed(click.Option):
    """An option that hidden names of earlier versions set, too.

    earlier -- names that Londiste 4 had before: their use prints a notice.
    londiste3 -- names of Londiste 3: they are accepted silently.
    """

    def __init__(
        self,
        *args: Any,
        earlier: Sequence[str] = (),
        londiste3: Sequence[str] = (),
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.earlier = tuple(earlier)
        self.hidden_names = (*earlier, *londiste3)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        for name in self.hidden_names:
            # Its value has a place of its own: several options may have the same earlier name.
            parser.add_option(
                obj=self,
                opts=[name],
                dest=name,
                action="store_const" if self.is_flag else "store",
                const=True,
            )

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, Any]:
        for name in self.hidden_names:
            if name in opts:
                opts = {**opts, str(self.name): opts[name]}
                if name in self.earlier:
                    _notice(ctx, name)
        return super().consume_value(ctx, opts)


def renamed(*now: str) -> Callable[[click.Context, click.Parameter, bool], bool]:
    """The callback of a hidden flag that does only a part of what the options ``now`` do."""

    def notice(ctx: click.Context, parameter: click.Parameter, value: bool) -> bool:
        if value:
            output.message(f"option {parameter.opts[0]} is now called {' or '.join(now)}")
        return value

    return notice


def _notice(ctx: click.Context, name: str) -> None:
    """Prints once which options have replaced an earlier name."""
    known = [p for p in ctx.command.params if isinstance(p, Renamed) and name in p.earlier]
    if ctx.meta.setdefault(f"londiste.renamed {name}", ctx) is ctx:
        ctx.meta[f"londiste.renamed {name}"] = None
        now = " and ".join(option.opts[0] for option in known)
        output.message(f"option {name} is now called {now}")


def explain(function: F) -> F:
    """``--dry-run``: print what would be done."""
    return click.option(
        "--dry-run",
        "explain",
        is_flag=True,
        cls=Renamed,
        earlier=("--explain",),
        help="Show the steps without executing them.",
    )(function)


def database(function: F) -> F:
    """``--db``: a connection string instead of the file's."""
    return click.option(
        "--db", metavar="DSN", help="Connection string of the database; overrides the settings."
    )(function)


def daemon(function: F) -> F:
    """``-d -r -s -k``: run as a daemon; reload, stop or kill the running daemon."""
    for flag, name, text in (
        ("-k", "--kill", "Stop the running daemon immediately (SIGTERM)."),
        ("-s", "--stop", "Stop the running daemon after its current batch (SIGINT)."),
        ("-r", "--reload", "Reload the settings of the running daemon (SIGHUP)."),
        ("-d", "--daemon", "Run in the background (requires a pidfile)."),
    ):
        function = click.option(flag, name, is_flag=True, help=text)(function)
    return function


pass_context = click.make_pass_decorator(Context)
