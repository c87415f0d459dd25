"""The program ``londiste``, also ``python -m londiste``; Ctrl-C ends it while it is loaded, too."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Runs a command and ends the process with its exit code."""
    # Loading makes no garbage, and a quarter of its time was the search; on again in cli/lazy.py.
    gc.disable()
    try:
        # Imported here, so that an interrupted import is no traceback.
        from londiste.daemon.arguments import hide_arguments

        hide_arguments()
        from londiste.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
