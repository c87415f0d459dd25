"""``pgqadm FILE.ini COMMAND``: queue administration of generation 2."""

from __future__ import annotations

import sys

import click

from londiste.cli import cli, output
from londiste.cli.entry.common import Line, parse, present, refuse, required
from londiste.cli.errors import run
from londiste.compat.config import Config
from londiste.db.connection import Connection, session
from londiste.errors import UsageError
from londiste.pgq import config as parameters
from londiste.pgq import queues

_USAGE = "FILE.ini install|ticker|status|create|drop|register|unregister|config [-d|-r|-s|-k]"
#: Options of the program, which every command takes.
_OWN = frozenset(("-v", "-q", "--verbose", "--quiet"))
#: Old command -> words of the present one.
_PRESENT = {
    "install": ("queue", "install"),
    "ticker": ("ticker",),
    "create": ("queue", "create"),
    "drop": ("queue", "drop"),
    "register": ("queue", "register"),
    "unregister": ("queue", "unregister"),
}
#: The parameters that ``config`` shows.
_CONFIG = ("ticker_max_lag", "ticker_idle_period", "rotation_period", "ticker_max_count")


def pgqadm() -> None:
    """Runs a command and ends the process."""
    argv = sys.argv[1:]
    sys.exit(run(click.Command("pgqadm", callback=lambda: administer(argv)), [], name="pgqadm"))


def administer(argv: list[str]) -> int:
    """Runs a command; its exit code."""
    line = parse(argv, "pgqadm", _USAGE)
    if line is None:
        return 0
    config = Config("pgqadm", line.file)
    required(config, "db")
    if not line.words and {"-r", "-s", "-k", "-d"}.intersection(line.flags):
        line = Line(line.file, line.flags, ("ticker",))
    command, *words = line.words or [""]
    if command == "config" and any("=" in word for word in words):
        return _pass(config, line, ("queue", "config", *words))
    if command in ("status", "config"):
        left = [flag for flag in line.flags if flag not in _OWN]
        refuse([*left, *words[command == "config" :]], "pgqadm", _USAGE)
        with session(config.get("db"), name="pgqadm", autocommit=True) as conn:
            if command == "status":
                _status(conn)
            else:
                _config(conn, words[0] if words else None)
        return 0
    if command not in _PRESENT:
        raise UsageError(f"unknown command {command}", hint=f"pgqadm {_USAGE}")
    return _pass(config, line, (*_PRESENT[command], *words))


def settings(config: Config) -> dict[str, str]:
    """The settings of the present ticker."""
    found = present(config, {"db": "db"})
    if config.get("loop_delay", ""):
        found["ticker_period"] = str(config.getfloat("loop_delay"))
    for key in ("logfile", "pidfile"):
        if config.get(key, ""):
            found[key] = config.getfile(key)
    if config.get("maint_delay_min", ""):
        found["maint_period"] = str(60 * config.getfloat("maint_delay_min"))
    elif config.get("maint_delay", ""):
        found["maint_period"] = str(config.getfloat("maint_delay"))
    return found


def _pass(config: Config, line: Line, words: tuple[str, ...]) -> int:
    own = [flag for flag in line.flags if flag in _OWN]
    rest = [flag for flag in line.flags if flag not in _OWN]
    given = [
        word for key, value in settings(config).items() for word in ("--set", f"{key}={value}")
    ]
    while "--set" in rest:
        place = rest.index("--set")
        given += rest[place : place + 2]
        del rest[place : place + 2]
    return run(cli, [*own, *given, *words, *rest])


def _config(conn: Connection, queue: str | None) -> None:
    """Prints the four parameters of a queue, or of all."""
    known = parameters.read(conn)
    if queue is not None and queue not in known:
        raise UsageError(f"queue {queue} does not exist", hint=f"pgqadm FILE.ini create {queue}")
    for name in [queue] if queue is not None else sorted(known):
        click.echo(output.cell(name))
        for key in _CONFIG:
            click.echo(f"    {key:<20} = {known[name][key]}")


def _status(conn: Connection) -> None:
    """Prints queues with their parameters and lag, and the consumers of each."""
    server = conn.execute("select pg_catalog.current_setting('server_version')").fetchone()
    assert server is not None
    click.echo(f"Postgres version: {server[0].split()[0]}")
    consumers = queues.get_consumer_info(conn)
    rows: list[list[str]] = []
    for queue in queues.get_queue_info(conn):
        limits = (queue.queue_ticker_max_lag, queue.queue_ticker_idle_period)
        ticker = "/".join([str(queue.queue_ticker_max_count), *(f"{_seconds(x)}s" for x in limits)])
        rotation = f"{queue.queue_ntables}/{_seconds(queue.queue_rotation_period)}s"
        lag = "-" if queue.ticker_lag is None else output.interval(queue.ticker_lag)
        rows.append([queue.queue_name, rotation, ticker, lag, ""])
        for consumer in consumers:
            if consumer.queue_name == queue.queue_name:
                times = (consumer.lag, consumer.last_seen)
                shown = ["-" if time is None else output.interval(time) for time in times]
                rows.append([f"    {consumer.consumer_name}", "", "", *shown])
    head = ["Event queue / consumer", "Rotation", "Ticker", "Lag", "Last seen"]
    output.table(head, rows)


def _seconds(value: object) -> int:
    return int(value.total_seconds()) if hasattr(value, "total_seconds") else 0
