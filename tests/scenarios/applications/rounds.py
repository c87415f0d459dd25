"""The loop of an application's writer: rounds with numbers, whatever happens to its connection.

A writer runs in the virtual environment of its application, without the tests of Londiste.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

#: Refused while another database takes writes; broken serialization, deadlocks.
PASSING = ("LD102", "40001", "40P01", "57P01", "57P03", "08006", "25006")


def write_rounds(
    write: Callable[[int], None],
    confirmed: Callable[[int], bool],
    passing: Callable[[Exception], bool],
) -> None:
    """Writes rounds 1, 2, 3 … until SIGTERM, and prints each that is confirmed.

    write -- a round; the last of its transactions leaves its number.
    confirmed -- asks whether it did: the answer of a commit may be lost, and the commit not.
    passing -- whether an error of the database calls for the same round again.
    """
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    n, doubt = 1, False
    while doubt or not stop.is_set():
        try:
            if not (doubt and confirmed(n)):
                write(n)
        except Exception as error:
            if not passing(error):
                raise
            doubt = True
            print(f"again {n}: {type(error).__name__}", flush=True)
            stop.wait(0.05)
            continue
        doubt = False
        print(f"round {n}", flush=True)
        n += 1
        stop.wait(0.02)


def sqlstate(error: BaseException | None) -> str | None:
    """The code of an error of psycopg, or of one that was raised from it."""
    while error is not None:
        code = getattr(error, "sqlstate", None)
        if code is not None:
            return str(code)
        error = error.__cause__ or error.__context__
    return None
