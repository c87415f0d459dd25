"""Compatibility check of the SQL in a database with this program.

Programs and SQL may be one release apart, so a newer schema is fine until it gave up what this
program calls; then its ``after`` upgrades have run.  No daemon changes a schema: what does not
fit is an error with the command that mends it.
"""

from __future__ import annotations

import logging
from enum import StrEnum

import psycopg

from londiste.db.connection import Connection
from londiste.dsn import db_option
from londiste.errors import InstallError
from londiste.install import ledger, owners, source
from londiste.install.ledger import Installed
from londiste.install.plan import changed, edited, pending
from londiste.install.source import Component, FileKind, version_key
from londiste.wording import shortened

log = logging.getLogger(__name__)


class Compat(StrEnum):
    """Relation of the installed schema to this program."""

    MISSING = "missing"
    OLDER = "older"
    SAME = "same"
    NEWER = "newer"
    NEWER_BREAKING = "newer_breaking"
    EDITED = "edited"
    OWNED_BY_EXTENSION = "owned_by_extension"

    @property
    def fits(self) -> bool:
        """Whether a daemon may work."""
        return self in {Compat.SAME, Compat.NEWER}


def compat(component: Component, installed: Installed) -> Compat:
    """Compares the two; touches nothing."""
    if installed.extension is not None:
        return Compat.OWNED_BY_EXTENSION
    if installed.version is None:
        return Compat.MISSING
    ours, theirs = version_key(component.version), version_key(installed.version)
    if theirs > ours:
        broken = theirs[0] > ours[0] or any(_breaks(path, ours) for path in installed.files)
        return Compat.NEWER_BREAKING if broken else Compat.NEWER
    if edited(component, installed):
        return Compat.EDITED
    if theirs < ours or changed(component, installed):
        return Compat.OLDER
    if pending(component, installed, FileKind.UPGRADE):
        return Compat.OLDER
    return Compat.SAME


def check(conn: Connection, component: str, *, original: bool = False) -> Compat:
    """Raises InstallError with the command to run unless the component fits.

    Includes all required components.  Daemons call it after every connect.  So it also raises
    NotTrusted if another role could replace what they call (``owners``).

    original -- a compatible schema from another installer is accepted.
    """
    result = Compat.SAME
    chosen = source.select(source.load(), [component])
    owners.require(conn, owners.of_components([ours.name for ours in chosen]))
    states = ledger.read_all(conn, [ours.name for ours in chosen])
    for ours in chosen:
        installed = states[ours.name]
        result = compat(ours, installed)
        if original and (result is Compat.OWNED_BY_EXTENSION or installed.foreign):
            log.debug("schema %s was not installed by Londiste, but is compatible", ours.name)
        elif not result.fits:
            raise _misfit(ours, installed, result, conn.info)
        elif result is Compat.NEWER:
            log.info(
                "schema %s has version %s, newer than this program's %s",
                ours.name,
                installed.version,
                ours.version,
            )
    return result


def _breaks(path: str, ours: tuple[int, int, int, int, int]) -> bool:
    """Whether the file removes functions that programs of this version call."""
    parts = path.split("/")
    return (
        len(parts) == 3
        and parts[0] == "upgrades"
        and parts[2].startswith("after-")
        and version_key(parts[1]) > ours
    )


def _misfit(
    component: Component, installed: Installed, found: Compat, at: psycopg.ConnectionInfo
) -> InstallError:
    name, where = component.name, at.dbname
    install = f"londiste install {db_option(at.dsn)} {name}"
    match found:
        case Compat.MISSING if installed.foreign:
            return InstallError(
                f"{where}: schema {name} was not made by londiste install",
                detail=f"it has {len(installed.names)} tables and functions and no ledger",
                hint=f"use another database, or remove that schema; then {install}",
            )
        case Compat.MISSING:
            return InstallError(f"{where}: schema {name} is not installed", hint=install)
        case Compat.OLDER:
            return InstallError(
                f"{where}: schema {name} {outdated(component, installed)}",
                detail=_difference(component, installed),
                hint=install,
            )
        case Compat.EDITED:
            return InstallError(
                f"{where}: an upgrade file of schema {name} was changed after its execution",
                detail=", ".join(file.path for file in edited(component, installed)),
                hint="install the released package: pip install --force-reinstall londiste4",
            )
        case Compat.NEWER_BREAKING:
            return InstallError(
                f"{where}: schema {name} has version {installed.version},"
                f" this program {component.version} is too old for it",
                hint="run: pip install --upgrade londiste4",
            )
        case _:
            return InstallError(
                f"{where}: schema {name} belongs to the extension {installed.extension}",
                detail="its tables and functions differ from those of this program",
                hint="adopt it with its rows and triggers: londiste install --adopt",
            )


def outdated(component: Component, installed: Installed) -> str:
    """Pure: what an older schema has or lacks; its number may be that of the program."""
    if installed.version != component.version:
        return f"has version {installed.version}, this program needs {component.version}"
    return f"lacks the present text of {_lacking(component, installed)}"


def _difference(component: Component, installed: Installed) -> str:
    lacking = _lacking(component, installed)
    return f"{lacking}: the present text was not run in this database" if lacking else ""


def _lacking(component: Component, installed: Installed) -> str:
    files = [*pending(component, installed, FileKind.UPGRADE), *changed(component, installed)]
    return shortened([file.path for file in files], 1)
