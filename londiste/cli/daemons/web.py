"""``londiste web``: the console, pages about a cascade in a browser."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from londiste.cascade.model import NodeType
from londiste.cli import options, output
from londiste.daemon.loop import describe
from londiste.errors import BadOption, LondisteError
from londiste.monitor.place import Place, of_file
from londiste.settings import WebSettings, WorkerSettings, cascade_file
from londiste.settings.loading import taken_over

if TYPE_CHECKING:
    from londiste.console.access import Policy
    from londiste.console.collect import Snapshot
    from londiste.console.pages.common import MigrationRow

#: Seconds between two looks whether the process is to stop; a signal ends the wait.
_LONG = 3600.0
_SHORTEST_PASSWORD = 10
#: What the console cannot change while it runs: all but its users.
FIXED = tuple(name for name in WebSettings.__annotations__ if name not in ("sections", "users"))

log = logging.getLogger(__name__)


@click.command()
@options.daemon
@click.option(
    "--hash-password",
    "user",
    metavar="NAME",
    help="Ask for a password, and print the line of the setting users; start nothing.",
)
@options.pass_context
def web(context: options.Context, daemon: options.DaemonCall, user: str | None) -> None:
    """Show the cascade in a browser: nodes, tables, copies, queues, failed events, live.

    Prints its address. Without a login it changes nothing, and listens on 127.0.0.1 only. Needs the
    extra `web`.
    """
    if user is not None:
        _print_user(user)
        return

    def read() -> WebSettings:
        return context.in_background(context.settings(WebSettings), daemon)

    own = read()
    if daemon.signalled(own.pidfile, by_run=True):
        return
    _require()
    from londiste.console import server
    from londiste.console.app import Console
    from londiste.console.collect import Collector
    from londiste.console.history import History
    from londiste.console.watch import Watch

    policy = _policy(own)
    nodes = _places(context)
    nodes()
    with contextlib.closing(server.bound(own.listen)) as listener:
        output.message(f"console: {own.public_url or server.url(listener)}")
        with context.process(own, pid=own.pidfile, background=daemon.background) as signals:
            collect = Collector(nodes, show_values=own.show_values)
            watch = Watch(collect, History(own.history_hours), refresh=own.refresh)
            console = Console(watch, _migration, policy)

            def changed() -> None:
                collect.forget()
                watch.again()

            forms = console.forms(nodes, changed, actions=own.actions, show_values=own.show_values)
            watch.start()
            with server.serving(console.app(own.public_url, forms), listener):
                while not signals.stopping:
                    if signals.reload_wanted():
                        own = _reloaded(own, read, policy)
                    signals.wait(_LONG)
                watch.stop()


def _reloaded(own: WebSettings, read: Callable[[], WebSettings], policy: Policy) -> WebSettings:
    """The settings of the file after SIGHUP; their users replace those of the policy."""
    from londiste.console import security
    from londiste.console.login import users_of

    try:
        new = read()
        _policy(new)
        users = users_of(new.users)
        has_login = bool(users) or policy.proxy is not None
        security.refuse_open(own.listen, has_login=has_login, actions=own.actions)
    except LondisteError as error:
        log.error("settings not reloaded, the old ones stay: %s", describe(error))
        return own
    new = taken_over(own, new, FIXED)
    policy.logins.replace(users)
    log.info("reloaded the settings")
    return new


def _policy(own: WebSettings) -> Policy:
    """Who may reach the console, by its settings.  Raises BadOption if they leave it open."""
    from londiste.console import security
    from londiste.console.access import Policy, proxy_of
    from londiste.console.login import Logins, users_of

    security.public_host(own.public_url)
    policy = Policy(
        Logins(users_of(own.users)),
        proxy_of(own.auth_header, own.auth_proxies),
        own.public_url.lower().startswith("https:"),
    )
    security.refuse_open(own.listen, has_login=policy.is_closed, actions=own.actions)
    return policy


def _print_user(name: str) -> None:
    """Prints the line of a user; the password is not shown."""
    from londiste.console.login import hashed, users_of

    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\n")
    if len(password) < _SHORTEST_PASSWORD:
        raise BadOption(
            f"the password has less than {_SHORTEST_PASSWORD} characters", hint="use a longer one"
        )
    line = f"{name}:{hashed(password)}"
    users_of([line])
    click.echo(line)


def _places(context: options.Context) -> Callable[[], Sequence[Place]]:
    """The nodes of the settings; of a cascade's file all, which is read each time."""
    file = None if context.config is None else cascade_file.read(context.config)
    if file is not None and context.node is None:
        return lambda: of_file(context.cascade_file(), context.overrides)
    found = [Place.of(context.settings(WorkerSettings), file)]
    return lambda: found


def _migration(snapshot: Snapshot) -> MigrationRow | None:
    """The state of the migration that the cascade is: its nodes are old and new."""
    from londiste.console.pages.common import MigrationRow
    from londiste.migrate import phase
    from londiste.migrate.databases import NEW, OLD

    types = {n.name: NodeType(n.type) for n in snapshot.status.nodes if not n.unreachable}
    if not types or not types.keys() <= {OLD, NEW}:
        return None
    noted = [one.operation for one in snapshot.nodes.values() if one.operation is not None]
    below = next((name for name, kind in types.items() if kind is not NodeType.ROOT), None)
    facts = snapshot.nodes.get(below or "")
    states = [table.state for table in facts.tables] if facts is not None else []
    added = max((len(one.tables) for one in snapshot.nodes.values()), default=0)
    now = phase.phase(phase.PhaseFacts(types, noted, states, 0, added))
    ready = sum(state == "ok" for state in states)
    return MigrationRow(now.value, ready, added, phase.NEXT[now])


def _require() -> None:
    try:
        import jinja2  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise BadOption(
            f"web: the package {error.name} is not installed", hint='pip install "londiste4[web]"'
        ) from None
