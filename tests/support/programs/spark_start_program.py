"""A program with a session of Spark, to be ended at any moment of it.

    python -m tests.support.programs.spark_start_program JOBS

It runs so many jobs, and says on stdout which it has come to.  SIGTERM raises an exception in it,
as it does in the commands of Londiste.
"""

from __future__ import annotations

import operator
import signal
import sys
from types import FrameType


def main() -> None:
    """Starts the session, runs the jobs, ends the session."""

    def stop(number: int, frame: FrameType | None) -> None:
        sys.exit(143)

    signal.signal(signal.SIGTERM, stop)
    from londiste.engine.spark import jobs, session

    print("starting", flush=True)
    carrier = session.carrier({"spark.master": "local[1]"})
    for number in range(int(sys.argv[1])):
        print(f"job {number}", flush=True)
        list(jobs.run(carrier, operator.neg, [1, 2], 1))
    print("stopping", flush=True)
    session.stop()
    print("stopped", flush=True)


if __name__ == "__main__":
    main()
