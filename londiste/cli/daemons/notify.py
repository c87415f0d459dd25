"""``londiste notify``: the daemon that sends findings of a cascade to a webhook or command."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from londiste.cli import options, output
from londiste.errors import BadOption, TransientError
from londiste.monitor.place import Place, of_file
from londiste.monitor.queues.model import Severity
from londiste.monitor.verdict import Allowed
from londiste.notify.channels import Channel, Command, Webhook, secret_of
from londiste.notify.decide import Rules
from londiste.notify.notifier import Notifier, Task, deliver_test
from londiste.notify.store import Store
from londiste.settings import NotifySettings, WorkerSettings, cascade_file, database_variable
from londiste.settings.loading import taken_over


@click.command()
@click.option(
    "--node",
    "nodes",
    multiple=True,
    metavar="NAME",
    help="Report findings of this node only; repeatable (default: all nodes).",
)
@click.option("--test", is_flag=True, help="Send a test message to each channel, then exit.")
@click.option("--once", is_flag=True, help="Check the cascade and deliver once, then exit.")
@options.daemon
@options.pass_context
def notify(
    context: options.Context,
    nodes: Sequence[str],
    test: bool,
    once: bool,
    daemon: options.DaemonCall,
) -> None:
    """Send findings of status --check to a webhook or a command.

    Section [notify] of the settings names them. A finding is sent when it begins, lasts and ends.
    londiste run runs this daemon if the file has that section.
    """
    if context.node is not None:
        nodes = (*nodes, context.node)
        context = replace(context, node=None)
    known: list[NotifySettings] = []

    def read() -> NotifySettings:
        found = context.settings(NotifySettings)
        if known:
            found = taken_over(known[0], found, ("state_file",))
        known[:] = [found]
        return found

    def task() -> Task:
        return _task(context, read(), nodes, once=once)

    own = context.in_background(read(), daemon)
    if daemon.signalled(own.pidfile, by_run=True):
        return
    first = task()
    if test:
        _test(first)
        return
    place = first.places[0]
    store = Store(own.state_file or _state_file(context.config, place.queue, nodes))
    with (
        context.process(
            own,
            pid=None if once else own.pidfile,
            background=daemon.background and not once,
            announced=not once,
        ) as signals,
        store.owned(),
    ):
        notifier = Notifier(task, store, signals, name="-".join(("notify", *nodes)))
        if not once:
            notifier.run()
            return
        waiting = notifier.run_once()
    if waiting:
        raise TransientError(
            f"{waiting} messages could not be delivered", hint="londiste notify --test"
        )


def _task(
    context: options.Context, own: NotifySettings, nodes: Sequence[str], *, once: bool
) -> Task:
    """The task of these settings.  Raises BadOption."""
    channels: list[Channel] = []
    if own.webhook:
        secret = secret_of(own.webhook_secret_file, own.webhook_secret_env)
        channels.append(Webhook(own.webhook, secret, own.timeout))
    if own.command:
        hidden = [own.webhook_secret_env] if own.webhook_secret_env else []
        channels.append(Command(own.command, own.timeout, hidden))
    if not channels:
        raise BadOption(
            "no channel for notifications",
            hint='write in section [notify]: webhook = "https://…", or command = ["…"]',
        )
    return Task(
        places=tuple(_places(context, nodes)),
        channels=tuple(channels),
        rules=Rules(
            own.after, own.remind, float("inf") if once else max(60.0, 3 * own.check_period)
        ),
        allowed=Allowed(own.max_lag, own.max_backlog),
        severity=int(Severity[own.severity.upper()]),
        period=own.check_period,
        longest_delay=own.max_retry_delay,
        only=frozenset(nodes),
    )


def _places(context: options.Context, nodes: Sequence[str]) -> list[Place]:
    """The nodes to ask: all of the file of a cascade, the root first; else the own one."""
    file = None if context.config is None else cascade_file.read(context.config)
    if file is None:
        return [Place.of(context.settings(WorkerSettings))]
    for name in nodes:
        if name not in file.nodes:
            raise BadOption(
                f"{file.path}: no node {name}", hint=cascade_file.did_you_mean(name, file.nodes)
            )
    database_variable.require_known(file)
    return of_file(file, {})


def _state_file(config: Path | None, queue: str, nodes: Sequence[str]) -> Path:
    """The default file of the state: in the directory of the service, or beside the settings."""
    base = config.resolve() if config is not None else Path.cwd() / "londiste"
    name = ".".join((base.stem, *nodes, "notify.json"))
    directory = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
    if not directory:
        return base.with_name(name)
    # Several files may share the directory of a service.
    digest = hashlib.sha256(f"{base}\n{queue}".encode()).hexdigest()[:8]
    return Path(directory) / f"{digest}.{name}"


def _test(task: Task) -> None:
    """Sends a test message; raises TransientError if a channel does not take it."""
    found = deliver_test(task.channels, task.places[0].queue)
    for place, error in found.items():
        output.message(f"{place}: {error or 'delivered'}")
    failed = [error for error in found.values() if error]
    if failed:
        raise TransientError(
            f"{len(failed)} of {len(found)} channels did not take the test message",
            hint="check section [notify] of the settings",
        )
