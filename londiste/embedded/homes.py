"""Home directories of clusters, and cache directories that persist between runs.

Created homes are removed with their last cluster.  Programs are started from a cache, so its
directory is used only when it belongs to this user and no other user can write to it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from londiste.embedded.account import server_account, short_temp_dir

_made: set[Path] = set()
_shared: set[Path] = set()


def throwaway_home(
    parent: Path | None = None, *, prefix: str = "londiste-", shared: bool = False
) -> Path:
    """A new directory for throw-away clusters; it is removed with the last of them.

    parent -- where it is made; None is the temporary directory.
    shared -- the caller keeps files of its own in it: it removes the directory itself, and when
        it is killed, its files are removed with the clusters.
    """
    parent = parent or short_temp_dir(server_account())
    home = Path(tempfile.mkdtemp(prefix=prefix, dir=parent)).resolve()
    home.chmod(0o755)
    (_shared if shared else _made).add(home)
    return home


def ready_home(home: Path) -> Path:
    """The absolute directory; created with its parents if it does not exist."""
    if not home.exists():
        for directory in reversed([p for p in (home, *home.parents) if not p.exists()]):
            directory.mkdir(exist_ok=True)
            # A umask of 077 must not lock the server's account out of what was made for it.
            directory.chmod(0o755)
        _made.add(home.resolve())
    return home.resolve()


def was_made(home: Path) -> bool:
    """Whether this process created the directory."""
    return home in _made


def is_shared(home: Path) -> bool:
    """Whether files of a killed process in the directory must be removed with the clusters."""
    return home in _shared


def leave_home(home: Path) -> None:
    """Removes a created directory once it is empty."""
    if home in _made:
        with contextlib.suppress(OSError):
            home.rmdir()


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
