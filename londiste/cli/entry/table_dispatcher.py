"""``table_dispatcher FILE.ini``: inserts of a queue go into partitions of one table."""

from __future__ import annotations

import sys

import click

from londiste.cli.consumer_cli import command
from londiste.cli.entry.common import Registering, parse, present, refuse, required
from londiste.cli.errors import run
from londiste.compat.config import Config
from londiste.db import catalog
from londiste.db.connection import describe_dsn, session
from londiste.db.names import TableName
from londiste.errors import BadOption
from londiste.tools.dispatch.program import Dispatcher
from londiste.tools.dispatch.rules import Rules, rules

_USAGE = "FILE.ini [-d | -r | -s | -k] [-v | -q] [--once | --unregister]"
_NAMES = {
    "job_name": "job_name",
    "src_db": "db",
    "dst_db": "target_db",
    "pgq_queue_name": "queue_name",
    "pgq_consumer_id": "consumer_name",
    "loop_delay": "poll_interval",
    "exception_sleep": "max_retry_delay",
    "dest_table": "table",
    "fields": "fields",
}
_PERIODS = {"daily": "day", "monthly": "month", "yearly": "year", "hourly": "hour"}
#: Words of the template and the present ones.
_WORDS = {
    "_DEST_TABLE": "%(part)s",
    "_SCHEMA_TABLE": "%(schema_table)s",
    "_PARENT": "%(parent)s",
    "_PKEY": "%(pkeys)s",
}


class OneTable(Dispatcher):
    """Inserts rows of all tables of a queue into one table."""

    def _rules(self) -> Rules:
        return rules(self.settings.handler, self.settings.options, {})

    def startup(self) -> None:
        """Refuses a table, or a column for the partition, that does not exist."""
        super().startup()
        rule, target = self.rules.usual, self.settings.target
        dest = TableName.parse(rule.table)
        with session(target, name="table_dispatcher", autocommit=True) as conn:
            if not catalog.columns(conn, dest):
                raise BadOption(
                    f"dest_table = {rule.table}: no such table in {describe_dsn(target)}",
                    hint="create the table, or correct dest_table",
                )
            assert rule.work is not None
            rule.work.check(conn, self.settings.queue_name, dest)


def table_dispatcher() -> None:
    """Runs the dispatcher and ends the process."""
    argv = sys.argv[1:]
    sys.exit(run(click.Command("table_dispatcher", callback=lambda: _run(argv)), []))


def _run(argv: list[str]) -> int:
    line = parse(argv, "table_dispatcher", _USAGE)
    if line is None:
        return 0
    refuse(line.words, "table_dispatcher", _USAGE)
    tool = command(OneTable, name="table_dispatcher", program=Registering)
    words = [
        word
        for key, value in settings(Config("table_dispatcher", line.file)).items()
        for word in ("--set", f"{key}={value}")
    ]
    return run(tool, [*words, *line.flags], name="table_dispatcher")


def settings(config: Config) -> dict[str, str]:
    """The settings of the present dispatcher.  Raises BadOption for an unknown method."""
    # Only inserts were dispatched.
    found = {"engine": "local", "event_types": "I", **present(config, _NAMES)}
    found.setdefault("consumer_name", config.get("job_name"))
    for key in ("logfile", "pidfile"):
        if config.get(key, ""):
            found[key] = config.getfile(key)
    required(config, "src_db", "dst_db", "pgq_queue_name", "dest_table")
    field = config.get("part_field", "")
    if not field:
        return {**found, "table_mode": "direct"}
    method = config.get("part_method", "daily")
    if method not in _PERIODS:
        raise BadOption(
            f"part_method is {method!r}, not daily or monthly", hint="set part_method = daily"
        )
    found["period"] = _PERIODS[method]
    if field == "_EVTIME":
        found["part_mode"] = "event_time"
    else:
        found |= {"part_mode": "date_field", "part_field": field}
    template = config.get("part_template", "").replace("%", "%%")
    for old, now in _WORDS.items():
        template = template.replace(old, now)
    if template:
        found["part_template"] = template
    return found
