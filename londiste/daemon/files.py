"""Atomic file writes: a file appears complete or not at all.  Hints of failed writes."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

#: Errors of writing that concern the file system, not Londiste.
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG}


def write_hint(error: OSError, otherwise: str) -> str:
    """Pure: what to do about a file that cannot be written; ``otherwise`` about its name."""
    return "free space on its file system" if error.errno in FULL else otherwise


@contextlib.contextmanager
def atomic_file(path: Path, *, replace: bool = True, private: bool = True) -> Iterator[IO[str]]:
    """A new file that gets its name when the with block ends without an error.

    After a crash of the machine the name leads to the old or to the new file.

    replace -- False: raises FileExistsError if the name is in use at the end.
    private -- only its owner may read it.
    """
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if replace:
            beside.replace(path)
        else:
            os.link(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    flush(path.parent)


def write_atomically(path: Path, text: str, *, replace: bool = True, private: bool = True) -> None:
    """Writes a text as ``atomic_file`` does."""
    with atomic_file(path, replace=replace, private=private) as file:
        file.write(text)


def flush(path: Path) -> None:
    """Flushes a file or directory to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
