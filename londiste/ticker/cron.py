"""pg_cron schedule: SQL that replaces the ticker daemon.

Ticks every few seconds (pg_cron from 1.5 on), retries, and maintenance in which every operation
is a transaction of its own, as rotation needs.  Vacuum is left to autovacuum.
"""

from __future__ import annotations

from dataclasses import dataclass

from londiste.db.queries import query
from londiste.errors import BadOption

#: Of jobs that run every few seconds; pg_cron takes less than a minute.
LONGEST_PERIOD = 59


@dataclass(frozen=True)
class CronJob:
    """One job of pg_cron; ``schedule`` in its notation."""

    name: str
    schedule: str
    command: str


def jobs(period: int = 1, database: str | None = None) -> list[CronJob]:
    """The jobs for one database.

    period -- seconds between ticks; database -- None: the one in which pg_cron is. Raises BadOption
        for a period that pg_cron does not support.
    """
    if not 1 <= period <= LONGEST_PERIOD:
        raise BadOption(
            f"a period of {period} seconds",
            detail="pg_cron supports 1 to 59 seconds",
            hint="--period 1",
        )
    of = f" of {database}" if database is not None else ""
    return [
        CronJob(f"londiste ticks{of}", f"{period} seconds", query("cron_ticks").strip()),
        CronJob(f"londiste retries{of}", "10 seconds", query("cron_retries").strip()),
        CronJob(f"londiste maintenance{of}", "* * * * *", query("cron_maintenance").strip()),
    ]


def statements(period: int = 1, database: str | None = None) -> list[str]:
    """The SQL that schedules the jobs; a job of the same name is replaced."""
    result = []
    for job in jobs(period, database):
        where = "" if database is None else f", {_literal(database)}"
        function = "schedule" if database is None else "schedule_in_database"
        result.append(
            f"select cron.{function}({_literal(job.name)}, {_literal(job.schedule)},"
            f" $londiste${job.command}$londiste${where});"
        )
    return result


def removal(database: str | None = None) -> list[str]:
    """The SQL that unschedules the jobs."""
    return [f"select cron.unschedule({_literal(job.name)});" for job in jobs(1, database)]


def _literal(text: str) -> str:
    if "\\" in text:
        raise BadOption(f"a backslash in {text} is not supported", hint="rename the database")
    return "'" + text.replace("'", "''") + "'"
