"""Cache directories that persist between runs.

Programs are started from there, so a directory is used only when it belongs to this user
and no other user can write to it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path


def user_caches() -> Iterator[Path]:
    """Cache directories of this user, best first; each exists and can be written."""
    places = _given()
    base = os.environ.get("XDG_CACHE_HOME", "")
    if base.startswith("/"):  # a relative one has to be ignored, says the specification
        places.append(Path(base) / "londiste")
    else:
        with contextlib.suppress(RuntimeError):  # this user has no home directory
            places.append(Path.home() / ".cache" / "londiste")
    yield from _usable([*places, _temporary()])


def system_caches() -> Iterator[Path]:
    """Cache directories of root that every user can read, best first.

    root's own cache is below a directory that no other user may enter.
    """
    yield from _usable([*_given(), Path("/var/cache/londiste"), _temporary()])


def _given() -> list[Path]:
    given = os.environ.get("LONDISTE_CACHE")
    return [Path(given).absolute()] if given else []


def _temporary() -> Path:
    return Path(tempfile.gettempdir()) / f"londiste-cache-{os.geteuid()}"


def _usable(places: list[Path]) -> Iterator[Path]:
    for place in places:
        try:
            if not place.exists():
                place.mkdir(parents=True)
                place.chmod(0o755)  # whatever the umask says, as the server's account reads here
            status = place.lstat()
        except OSError:
            continue
        ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
        if ours and not status.st_mode & 0o022 and os.access(place, os.W_OK | os.X_OK):
            yield place
