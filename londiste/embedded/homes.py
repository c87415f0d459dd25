"""Home directories of clusters; created ones are removed with their last cluster."""

from __future__ import annotations

import contextlib
import tempfile
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
