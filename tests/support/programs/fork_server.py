"""Runs commands of the program in forks of a process that has imported it already.

A command that is started anew takes most of a second; one that is forked, a few milliseconds.  What
is forked has done nothing yet but import: it is killed, stopped and traced like any other process.

Reads one JSON object a line: ``argv``, ``env``, ``out`` and ``err`` (files), ``code`` (a file that
takes the exit code, negative for a signal); answers each with the process id.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import click

# Imported here so that no child has to.
import londiste.cli.cascade.change_provider
import londiste.cli.cascade.takeover
import londiste.cli.daemons.worker
import londiste.replication.worker.worker  # noqa: F401
from londiste.cli import cli
from londiste.cli.consumer_cli import command
from londiste.cli.errors import run
from tests.support.programs.reporting_consumer import Reports
from tests.support.scenarios.processes import die_with_parent


def main() -> None:
    """Works until its input ends.  Whatever it has forked ends with it."""
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.close(reader)
            _watch(order, writer)
        os.close(writer)
        with os.fdopen(reader) as answer:
            print(answer.read(), flush=True)
        _reap()


def _watch(order: dict[str, Any], writer: int) -> None:
    """Forks the command and waits for it: somebody has to learn its exit code."""
    die_with_parent()
    pid = os.fork()
    if pid == 0:
        die_with_parent()
        os.close(writer)
        _command(order)
    os.write(writer, str(pid).encode())
    os.close(writer)
    _, status = os.waitpid(pid, 0)
    code = Path(order["code"])
    # Whole at once: somebody looks all the time.
    half = code.with_suffix(".new")
    half.write_text(str(os.waitstatus_to_exitcode(status)), encoding="ascii")
    half.rename(code)
    os._exit(0)


def _command(order: dict[str, Any]) -> None:
    code = 70
    try:
        os.setpgid(0, 0)
        for number, name in ((1, "out"), (2, "err")):
            file = os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(file, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.environ.update(order["env"])
        code = run(*_chosen(order["argv"]))
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _chosen(argv: list[str]) -> tuple[click.Command, list[str]]:
    """The program, or the consumer that scenarios run: ``-c FILE reports …``."""
    if argv[2:3] == ["reports"]:
        return command(Reports), argv[:2] + argv[3:]
    return cli, argv


def _reap() -> None:
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


if __name__ == "__main__":
    main()
