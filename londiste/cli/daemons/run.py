"""``londiste run``: runs all daemons of a cascade file as children of one process."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import click

from londiste import settings
from londiste.cascadefile.daemons import daemons, refuse_shared
from londiste.cli import options
from londiste.daemon.supervisor import Daemon, Supervisor, lines
from londiste.metrics.endpoint import listening
from londiste.metrics.tally import ChildTallies
from londiste.settings import RunSettings, WorkerSettings
from londiste.settings.cascade_file import CascadeFile
from londiste.settings.database_variable import VARIABLES
from londiste.settings.fields import ENV_PREFIX

#: Groups of daemons that stop one after the other: lakes and dispatchers, workers, tickers.
_GROUPS = 3

#: What --set and the environment say of this process alone, and not of its children.
_OWN = ("metrics", "metrics_hosts", "pidfile", "logfile")


@click.command()
@click.option(
    "--node",
    "nodes",
    multiple=True,
    metavar="NAME",
    help="Run the daemons of this node only; repeatable (default: all nodes).",
)
@options.daemon
@options.pass_context
def run(
    context: options.Context,
    nodes: Sequence[str],
    daemon: options.DaemonCall,
) -> None:
    """Run all daemons of a cascade file: ticker, workers, lakes and dispatchers.

    A daemon that fails is started again. Every line of the log contains its program and node.
    SIGHUP (-r) reads the file again, and restarts daemons that cannot change without a restart.
    """
    chosen = (*nodes, *([context.node] if context.node else ()))
    plain = dataclasses.replace(context, node=None)
    own = plain.in_background(plain.settings(RunSettings), daemon)
    if daemon.signalled(own.pidfile):
        return

    context.cascade_file()
    # Each child has the database of its node.
    for name in (*VARIABLES, *(f"{ENV_PREFIX}{key.upper()}" for key in _OWN)):
        os.environ.pop(name, None)
    of_children = {key: value for key, value in context.overrides.items() if key not in _OWN}
    # One log has one form of lines.
    of_children["log_format"] = own.log_format
    program = dataclasses.replace(plain, overrides=of_children).program()

    def read() -> list[Daemon]:
        file = context.cascade_file()
        addresses = [("[run]", own.metrics), ("[ticker]", _metrics_of_ticker(file))]
        for kind, jobs in file.jobs.items():
            addresses += [(f"{kind} {name}", _metrics_of(keys)) for name, keys in jobs.items()]

        def of_worker(node: str) -> WorkerSettings:
            found = settings.load(WorkerSettings, file.path, of_children, node=node)
            addresses.append((f"the worker of {node}", found.metrics))
            return found

        wanted = daemons(file, chosen, program, of_worker)
        refuse_shared(file.path, addresses)
        return wanted

    # Wrong settings are reported before the start in the background.
    read()
    with (
        listening(own) as endpoint,
        context.process(
            own,
            pid=own.pidfile,
            background=daemon.background,
            stop_timeout=_GROUPS * own.stop_timeout + 5,
        ) as signals,
    ):
        tallies = ChildTallies()
        supervisor = Supervisor(
            read,
            signals,
            stop_timeout=own.stop_timeout,
            longest=own.max_retry_delay,
            output=lines(own.logfile, console=not daemon),
            form=own.log_format,
            files=tallies.file if endpoint is not None else lambda name: {},
        )
        if endpoint is not None:
            from londiste.metrics.daemons import of_run
            from londiste.monitor.place import of_file

            endpoint.serve(
                of_run(
                    lambda: of_file(context.cascade_file(), of_children),
                    chosen,
                    supervisor,
                    tallies,
                    own.metrics_max_lag,
                )
            )
        supervisor.run()


def _metrics_of_ticker(file: CascadeFile) -> str:
    return _metrics_of(file.common["ticker"])


def _metrics_of(section: Mapping[str, Any]) -> str:
    return str(section.get("metrics", ""))
