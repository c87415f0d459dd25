"""Command line of the embedded servers: ``python -m londiste.embedded [NAME…]``.

They run until Ctrl-C or SIGTERM and leave nothing behind; with ``--keep DIRECTORY`` they stay,
and the next call with the same directory finds them.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from londiste.embedded.binaries import available_versions
from londiste.embedded.postgres import clusters
from londiste.errors import LondisteError


def main(argv: Sequence[str] | None = None) -> int:
    """Starts the servers, prints their connection strings, and waits; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m londiste.embedded",
        description="Start PostgreSQL servers and print their connection strings.",
    )
    parser.add_argument("name", nargs="*", default=["postgres"], help="names of the servers")
    parser.add_argument("--version", type=int, metavar="N", help="major version of PostgreSQL")
    parser.add_argument("--port", action="store_true", help="listen on 127.0.0.1, too")
    parser.add_argument(
        "--keep", type=Path, metavar="DIRECTORY", help="keep servers and files after the end"
    )
    parser.add_argument("--list", action="store_true", help="list the available versions")
    options = parser.parse_args(argv)
    stops = {signal.SIGINT, signal.SIGTERM}
    try:
        if options.list:
            print(*available_versions(), sep="\n")
            return 0
        with clusters(
            options.keep,
            *options.name,
            versions=dict.fromkeys(options.name, options.version) if options.version else None,
            port=options.port,
            keep=options.keep is not None,
        ) as servers:
            for server in servers:
                print(f"{server.name}\t{server.dsn()}", flush=True)
            if options.keep is None:
                print("press Ctrl-C to stop", file=sys.stderr, flush=True)
                signal.pthread_sigmask(signal.SIG_BLOCK, stops)
                signal.sigwait(stops)
    except KeyboardInterrupt:
        return 130
    except LondisteError as error:
        for label, text in (("error", error), ("detail", error.detail), ("hint", error.hint)):
            if str(text):
                print(f"{label}: {text}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
