"""Prints what a process of Python knows about itself, and ends with the code that is asked for."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
from pathlib import Path
from typing import NoReturn

from londiste.daemon.child import Child


def listed(file: str) -> list[str]:
    """Arguments or environment, as others see them."""
    return Path(f"/proc/self/{file}").read_text(encoding="utf-8").rstrip("\0").split("\0")


def parent_of(words: list[str]) -> NoReturn:
    """Starts another one as its child, as a daemon does, and prints what that has printed."""
    passed = os.pipe()
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as output:
        argv = [*sys.orig_argv[:3], *words]
        child = Child.start(argv, output=output, files={"PASSED": passed[0]})
    with os.fdopen(reader, encoding="utf-8") as lines:
        known, *others = lines
    print(known, end="")
    print(*others, sep="", end="", file=sys.stderr)
    sys.exit(child.wait(60))


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        parent_of(sys.argv[2:])
    main = sys.modules["__main__"]
    known = {
        "argv": sys.argv,
        "orig_argv": sys.orig_argv,
        "path": sys.path,
        "cwd": str(Path.cwd()),
        "environment": dict(os.environ),
        "listed arguments": listed("cmdline"),
        "listed environment": sorted(listed("environ")),
        "main": (main.__file__, main.__spec__.name),
        "parent": os.getppid(),
        "leads its group": os.getpgrp() == os.getpid(),
        "threads": (threading.active_count(), len(list(Path("/proc/self/task").iterdir()))),
        "files": sorted(int(one.name) for one in Path("/proc/self/fd").iterdir()),
        "signals": [str(signal.getsignal(n)) for n in sorted(signal.valid_signals())],
        "stdin": sys.stdin.read(),
    }
    # As a command does, which fails where a stream takes a pipe for a file.
    sys.stdout.reconfigure(errors="backslashreplace")
    print(json.dumps(known), flush=True)
    print(random.random(), file=sys.stderr)
    if "londiste.cli" in sys.modules:
        print("londiste.cli is loaded", file=sys.stderr)
    if sys.argv[1] == "signal":
        os.kill(os.getpid(), int(sys.argv[2]))
    sys.exit(int(sys.argv[2]))
