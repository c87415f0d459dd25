"""A queue of jobs with several workers: this program, started as often as you like.

    londiste queue create jobs --set ticker_max_count=1 --set ticker_max_lag='1 second'
    python examples/work_queue.py work one --register
    python examples/work_queue.py work one &
    python examples/work_queue.py work two &
    python examples/work_queue.py submit square 12
    python examples/work_queue.py submit square 13 --in 60

with LONDISTE_DB and the ticker of README.md.  Results are in the table job_results.

A job that fails is done again after retry_seconds (5), and is a dead letter after three attempts:
`londiste queue dead list jobs workers`.  A worker that was killed is started again under its name
and goes on where it was: its result is there exactly once, though the one job at hand may be
worked on twice.

The ticker cuts the queue into batches, and a batch goes to one worker.  So for jobs that take
long let it cut often, as above; jobs submitted in one moment may still share a worker.
long_jobs.py is for jobs that take so long that a worker should have only one of them.
"""

import argparse
import os
import time
from collections.abc import Callable
from datetime import timedelta

import psycopg

import londiste

#: What can be submitted: name -> function over the text behind it.
JOBS: dict[str, Callable[[str], object]] = {
    "square": lambda text: int(text) ** 2,
    "upper": lambda text: text.upper(),
    "sleep": lambda text: time.sleep(float(text)),
}


class Worker(londiste.Consumer):
    """One of the workers; --set subconsumer_name says which."""

    queue = "jobs"
    name = "workers"
    delivery = londiste.ONCE_PER_EVENT
    max_attempts = 3

    def startup(self) -> None:
        with psycopg.connect(self.settings.db) as conn:
            # Two workers that begin in one moment would both find no table: one fails.
            conn.execute("select pg_advisory_xact_lock(hashtext('job_results'))")
            conn.execute(
                "create table if not exists job_results ("
                " id int8 primary key, worker text, job text, result text)"
            )

    def process_event(self, event: londiste.Event, ctx: londiste.Context) -> None:
        job = JOBS.get(event.type or "")
        if job is None:
            raise londiste.Dead(f"no job is called {event.type}")
        # Any exception here is a failed attempt.
        result = job(event.data or "")
        me = self.settings.subconsumer_name
        # Commits together with the mark that the job is done.
        ctx.db.execute(
            "insert into job_results values (%s, %s, %s, %s)",
            [event.id, me, f"{event.type} {event.data}", str(result)],
        )
        print(f"{me}: {event.type} {event.data} = {result}", flush=True)


def main() -> None:
    """Submits a job, or becomes a worker."""
    parser = argparse.ArgumentParser(description="A queue of jobs with several workers.")
    modes = parser.add_subparsers(dest="mode", required=True)
    submit = modes.add_parser("submit", help="submit a job")
    submit.add_argument("job", choices=JOBS)
    submit.add_argument("data")
    submit.add_argument("--in", dest="seconds", type=float, help="not before so many seconds")
    work = modes.add_parser("work", help="be a worker; all options of a consumer may follow")
    work.add_argument("name")
    given, options = parser.parse_known_args()

    if given.mode == "work":
        own = [f"subconsumer_name={given.name}", "retry_seconds=5"]
        Worker.main([word for setting in own for word in ("--set", setting)] + options)
    elif options:
        parser.error(f"unknown: {' '.join(options)}")
    with londiste.Producer(os.environ["LONDISTE_DB"], Worker.queue) as jobs:
        later = None if given.seconds is None else timedelta(seconds=given.seconds)
        print(f"job {jobs.send(given.job, given.data, at=later)}")


if __name__ == "__main__":
    main()
