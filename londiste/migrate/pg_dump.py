"""pg_dump of the old database: the program and its output, fit for another server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from londiste.db.connstr.program_dsn import arguments_without_secrets
from londiste.embedded.binaries import find_binaries
from londiste.errors import BadOption, ServerBinariesMissing, UsageError

_OURS = (
    *("pgq", "pgq_ext", "pgq_coop", "pgq_node"),
    *("londiste", "londiste_capture", "londiste_apply"),
)
#: Seconds for pg_dump; it reads the catalog only.
_DUMP_SECONDS = 600


@dataclass(frozen=True)
class Dumper:
    """A pg_dump program and its release."""

    program: Path
    version: int


def find_dumper(oldest: int) -> Dumper | None:
    """A pg_dump for a server of release ``oldest``: of that release, else of the next one."""
    candidates: list[Path] = []
    for version in range(oldest, 20):
        try:
            candidates.append(find_binaries(version).program("pg_dump"))
        except ServerBinariesMissing:
            continue
    on_path = shutil.which("pg_dump")
    if on_path:
        candidates.append(Path(on_path))
    found = [Dumper(program, _version(program)) for program in candidates]
    usable = [one for one in found if one.version >= oldest]
    return min(usable, key=lambda one: one.version, default=None)


def named_dumper(program: str, oldest: int) -> Dumper:
    """The pg_dump at a path.  Raises BadOption when it cannot read a server of this release."""
    path = shutil.which(program)
    version = _version(Path(path)) if path else 0
    if path is None or not version:
        raise BadOption(
            f"--pg-dump: {program} is no working pg_dump",
            hint="give the path of the program: --pg-dump /usr/lib/postgresql/18/bin/pg_dump",
        )
    if version < oldest:
        raise BadOption(
            f"--pg-dump: {program} has release {version}, the old server {oldest}",
            hint=f"give the path of a pg_dump of release {oldest} or later",
        )
    return Dumper(Path(path), version)


def dump(dsn: str, dumper: Dumper, *, bare: bool) -> str:
    """The output of pg_dump.  Raises UsageError when it fails.

    bare -- without owners and grants.
    """
    options = [
        os.fspath(dumper.program),
        "--schema-only",
        "--encoding=UTF8",
        "--no-publications",
        "--no-subscriptions",
        "--no-tablespaces",
        *(f"--exclude-schema={name}" for name in _OURS),
        *(["--no-owner", "--no-privileges"] if bare else []),
    ]
    try:
        with arguments_without_secrets(dsn) as (shown, environment):
            done = subprocess.run(
                [*options, "--dbname", shown],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env=environment,
                timeout=_DUMP_SECONDS,
                check=False,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(
            f"pg_dump did not run: {error}", hint="use --schema create, which does not need it"
        ) from error
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise UsageError(
            f"pg_dump failed: {lines[0] if lines else done.returncode}",
            detail="; ".join(lines[1:4]),
            hint="use --schema create, which does not need it",
        )
    try:
        text = done.stdout.decode()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"the schema of the old database contains invalid text: {error}",
            hint="create the schema by hand, then use --schema existing",
        ) from error
    return for_any_release(without_captures(text))


#: Where one object ends and the next one begins in what pg_dump writes.
_OBJECT = re.compile(r"(?m)^(?=--\n-- Name: )")
_CAPTURE = re.compile(
    r"\A--\n-- Name: [^\n]*; Type: TRIGGER; .*EXECUTE (?:FUNCTION|PROCEDURE)"
    rf" (?:{'|'.join(_OURS)})\.",
    re.DOTALL,
)
#: Comments, strings, quoted names and function bodies.
_QUOTED = re.compile(
    r"""--[^\n]*|/\*.*?\*/|\b[eE]'(?:[^'\\]|''|\\.)*'|'(?:[^']|'')*'|"(?:[^"]|"")*\""""
    r"|(\$(?:[^\W\d]\w*)?\$).*?\1",
    re.DOTALL,
)
_COMMAND = re.compile(
    r"\\(un)?restrict .*"
    r"|SET (\w*_timeout|default_table_access_method|row_security) = [^;]*;"
)
_COLUMN_OPTIONS = re.compile(r"(ALTER (?:TABLE|FOREIGN TABLE) .* ALTER COLUMN .* SET )\((.*)\);")


def statements(text: str) -> list[str]:
    """The parts of a dump, one per object."""
    return _OBJECT.split(text)


def without_captures(text: str) -> str:
    """Removes capture triggers: the migration creates its own."""
    return "".join(part for part in statements(text) if not _CAPTURE.match(part))


def for_any_release(text: str) -> str:
    """Removes psql commands, and settings that some releases do not have.

    What stands in a function body, a string or a comment stays as it is.
    """
    found, at = [], 0
    quoted = [match.span() for match in _QUOTED.finditer(text)][::-1]
    for line in text.split("\n"):
        while quoted and quoted[-1][1] <= at:
            quoted.pop()
        inside = bool(quoted) and quoted[-1][0] < at
        at += len(line) + 1
        kept = line if inside else _for_any_release(line)
        if kept is not None:
            found.append(kept)
    return "\n".join(found)


def _for_any_release(line: str) -> str | None:
    """A line outside of quotes; None: it is removed."""
    if _COMMAND.fullmatch(line):
        return None
    options = _COLUMN_OPTIONS.fullmatch(line)
    if options is None:
        return line
    # A server may keep options of its own here, which no user may set.
    kept = [o for o in options[2].split(", ") if o.startswith("n_distinct")]
    return f"{options[1]}({', '.join(kept)});" if kept else None


def _version(program: Path) -> int:
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    number = re.search(r"(\d+)", done.stdout)
    return int(number.group(1)) if number and done.returncode == 0 else 0
