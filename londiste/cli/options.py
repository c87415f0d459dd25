"""Options that several commands share, and the context of a call."""

from __future__ import annotations

import functools
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from londiste import settings
from londiste.cli import errors, output
from londiste.cli.anywhere import command_name, starts_anywhere
from londiste.cli.documents import Done, Rows, Steps
from londiste.daemon.logging import LogTarget
from londiste.daemon.signals import Signals
from londiste.errors import BadOption
from londiste.settings import Settings, cascade_file, database_variable
from londiste.settings.cascade_file import CascadeFile

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound=settings.Settings)


#: The settings file that is read without ``-c``, from the current directory.
DEFAULT_FILE = Path("londiste.toml")


@dataclass(frozen=True)
class Context:
    """The options before the command's name.

    config -- the settings file: given, of ``LONDISTE_CONFIG``, or ./londiste.toml (``implied``).
    node -- whose settings, of a file that describes a whole cascade.
    """

    config: Path | None
    quiet: bool
    verbose: int
    overrides: dict[str, str]
    node: str | None = None
    implied: bool = False

    @classmethod
    def make(
        cls,
        config: str | None,
        *,
        quiet: bool,
        verbose: int,
        overrides: Sequence[str],
        node: str | None = None,
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
        found = Path(config) if config else _implied()
        return cls(found, quiet, verbose, pairs, node, implied=not config)

    def settings(self, kind: type[S], **given: Any) -> S:
        """The settings of a command: file, then environment, then ``--set``, then ``given``.

        ``given`` are the command's own options; None means not given.
        """
        chosen = {key: value for key, value in given.items() if value is not None}
        node, anywhere = self.node or self._named_by_command(), starts_anywhere()
        found = settings.load(
            kind,
            # These have their own two databases.
            None if self.implied and kind.sections[0] in ("migrate", "selftest") else self.config,
            {**self.overrides, **chosen},
            node=node,
            anywhere=anywhere,
            others=_queue_parameters,
            variable=self.variable(node),
        )
        if isinstance(found, settings.NodeSettings):
            from londiste.cli import start
            from londiste.handlers import registry

            if node is None and anywhere:
                start.offer_another(self.config, command_name(), found.db)
            registry.load(found.handler_modules)
            registry.configure({"obfuscator_key": found.obfuscator_key})
        return found

    def variable(self, node: str | None) -> database_variable.Effect:
        """What LONDISTE_DB does beside the file of a cascade, for the call's node if it names one.

        A file that nobody named decides less.
        """
        return "wins" if self.implied and node is None else "refused"

    def cascade_file(self) -> CascadeFile:
        """The file of a whole cascade.  Raises BadOption without one."""
        if self.config is not None and not self.config.exists():
            raise BadOption(
                f"{self.config}: no such file",
                hint=f"print a template: londiste config cascade > {shlex.quote(str(self.config))}",
            )
        found = None if self.config is None else cascade_file.read(self.config)
        if found is None:
            raise BadOption(
                f"{self.config}: not the file of a cascade: it has no section [nodes]"
                if self.config
                else "no file of a cascade",
                hint="give one: -c FILE, or londiste.toml in this directory;"
                " londiste config cascade prints a template",
            )
        database_variable.require_known(found)
        return found

    def in_background(self, found: S, daemon: DaemonCall) -> S:
        """The settings with the default pid file and log file, if the options need them.

        They are next to the settings file, and named after it, the node and the program.
        """
        if not daemon.given or self.config is None or (found.pidfile and found.logfile):
            return found
        parts = [self.config.stem]
        if cascade_file.read(self.config) is not None:
            job = self.node or str(getattr(found, "node_name", ""))
            parts += [job] if job and found.sections[0] not in ("ticker", "run", "web") else []
        if found.sections[0] not in ("londiste", "run"):
            parts.append(found.sections[0])
        base = self.config.resolve().parent / ".".join(parts)
        return found.model_copy(
            update={
                "pidfile": found.pidfile or base.with_name(f"{base.name}.pid"),
                "logfile": found.logfile or base.with_name(f"{base.name}.log"),
            }
        )

    def log_target(self, found: Settings) -> LogTarget:
        """Where the log of this command goes, and what its lines say about the process."""
        program = command_name().removesuffix(" run").replace(" ", "-")
        target = LogTarget.of(
            found,
            program=program or found.sections[0],
            source=str(self.config.resolve()) if self.config is not None else "",
        )
        if not target.node and found.sections[0] == "ticker":
            # One of the file of a cascade.
            return replace(target, node=self.node or "")
        return target

    def process(
        self, found: Settings, pid: Path | None = None, **given: Any
    ) -> AbstractContextManager[Signals]:
        """The process of this command, as ``londiste.daemon.process``, with its log."""
        from londiste.daemon.process import process

        log = self.log_target(found)
        return process(pid=pid, log=log, quiet=self.quiet, verbose=self.verbose, **given)

    def program(self) -> list[str]:
        """The command line of a child with the same options, up to its command."""
        argv = [sys.executable, "-m", "londiste"]
        if self.config is not None:
            # A daemon has another working directory.
            argv += ["-c", str(self.config.resolve())]
        if self.node is not None:
            argv += ["--node", self.node]
        for key, value in self.overrides.items():
            argv += ["--set", f"{key}={value}"]
        return [*argv, *["-v"] * self.verbose, *["-q"] * self.quiet]

    def _named_by_command(self) -> str | None:
        """The value of the command's own ``--node``, if it is a node of the file."""
        ctx = click.get_current_context(silent=True)
        if ctx is None or self.config is None:
            return None
        own = [p.name for p in ctx.command.params if "--node" in p.opts and p.name]
        named = next((ctx.params.get(name) for name in own), None)
        found = cascade_file.read(self.config) if isinstance(named, str) else None
        return named if found is not None and named in found.nodes else None


def _queue_parameters() -> dict[str, str]:
    """Parameters of queues, which are no settings, with a hint for each."""
    from londiste.pgq.config import PARAMETERS

    return {
        name: f"set it for a queue: londiste queue config QUEUE {name}=VALUE" for name in PARAMETERS
    }


def _implied() -> Path | None:
    """The settings file without ``-c``."""
    if "LONDISTE_CONFIG" in os.environ:
        named = os.environ["LONDISTE_CONFIG"]
        return Path(named) if named else None
    return DEFAULT_FILE if DEFAULT_FILE.exists() else None


def with_node(command: click.Command) -> click.Command:
    """Lets a command take ``--node NAME`` after its name, too, unless it has an own one."""

    def keep(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
        above = ctx.find_object(Context)
        if value is not None and above is not None:
            ctx.obj = replace(above, node=value)
            errors.repeat_in_hints("--node", value)

    if not any("--node" in parameter.opts for parameter in command.params):
        option = click.Option(
            ["--node", "node_of_file"],
            metavar="NAME",
            hidden=True,
            expose_value=False,
            is_eager=True,
            callback=keep,
        )
        command.params.append(option)
    return command


class JsonOption(click.Option):
    """``--json``.

    documents -- types of what the command prints then, each a document of its own.
    """

    def __init__(
        self, *args: Any, documents: Sequence[type | Rows[Any]] = (), **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.documents = tuple(documents)


def json_output(*documents: type | Rows[Any]) -> Callable[[F], F]:
    """``--json``: the result as one JSON document on stdout, of one of these types."""
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        cls=JsonOption,
        documents=documents,
        help="Print the result as JSON.",
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


def flag(name: str, text: str, *, earlier: str = "", londiste3: str = "") -> Callable[[F], F]:
    """A flag that one hidden name of earlier versions sets, too: see ``Renamed``."""
    return click.option(
        name,
        is_flag=True,
        cls=Renamed,
        earlier=[earlier] if earlier else (),
        londiste3=[londiste3] if londiste3 else (),
        help=text,
    )


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


@dataclass(frozen=True)
class Execution:
    """``--dry-run`` and ``--json`` of a command that changes something."""

    explain: bool
    as_json: bool


def changes(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--dry-run`` and ``--json``: the Execution ``how``."""

    @functools.wraps(function)
    def called(*context: Any, explain: bool, as_json: bool, **given: Any) -> Any:
        return function(*context, how=Execution(explain, as_json), **given)

    return explain(json_output(Steps, Done)(called))


def seconds(flag: str, text: str, *, default: float = 60.0) -> Callable[[F], F]:
    """A time limit in seconds, 0 or more, with its default."""
    return click.option(
        flag,
        metavar="SECONDS",
        default=default,
        show_default=True,
        type=click.FloatRange(min=0),
        help=text,
    )


def limit(text: str, *, default: int) -> Callable[[F], F]:
    """``--limit``: the maximum number of rows, at least 1, with its default."""
    return click.option(
        "--limit",
        metavar="N",
        default=default,
        show_default=True,
        type=click.IntRange(1),
        help=text,
    )


def database(function: F) -> F:
    """``--db``: a connection string instead of the file's."""
    return click.option(
        "--db", metavar="DSN", help="Connection string of the database; overrides the settings."
    )(function)


DAEMON_FLAGS = tuple(
    click.option(flag, name, is_flag=True, help=text)
    for flag, name, text in (
        ("-k", "--kill", "Stop the daemon immediately (SIGTERM), and wait for its end."),
        (
            "-s",
            "--stop",
            "Stop the daemon after its current batch (SIGINT), and wait for its end.",
        ),
        ("-r", "--reload", "Reload the settings of the running daemon (SIGHUP)."),
        ("-d", "--daemon", "Run in the background."),
    )
)


@dataclass(frozen=True)
class DaemonCall:
    """``-d``, ``-r``, ``-s`` and ``-k`` of a call."""

    background: bool
    reload: bool
    stop: bool
    kill: bool

    @property
    def given(self) -> bool:
        """Whether there is one of them."""
        return self.background or self.reload or self.stop or self.kill

    def signalled(self, path: Path | None, *, by_run: bool = False) -> bool:
        """Signals the daemon of a pid file for ``-r``, ``-s`` or ``-k``; False without them.

        Waits for the end of one that stops: the next one needs its locks and its address.
        """
        from londiste.daemon.pidfile import control, wait_end

        pid = control(path, reload=self.reload, stop=self.stop, kill=self.kill, by_run=by_run)
        if pid is None or path is None:
            return False
        if not self.reload:
            wait_end(path, pid)
        output.message(f"{'sent signal to' if self.reload else 'stopped'} process {pid}")
        return True


def daemon(function: Callable[..., Any]) -> Callable[..., Any]:
    """``-d -r -s -k``: run as a daemon; reload, stop or kill it; the DaemonCall ``daemon``."""

    @functools.wraps(function)
    def called(
        *context: Any, daemon: bool, reload: bool, stop: bool, kill: bool, **given: Any
    ) -> Any:
        return function(*context, daemon=DaemonCall(daemon, reload, stop, kill), **given)

    for option in DAEMON_FLAGS:
        called = option(called)
    return called


def together(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """One decorator that applies several, the first of them last."""

    def decorate(function: Any) -> Any:
        for one in reversed(decorators):
            function = one(function)
        return function

    return decorate


pass_context = click.make_pass_decorator(Context)
