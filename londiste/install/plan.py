"""Installation plan: which files have to run in a database; pure.

Two truths, one result: a new database runs ``tables/`` and records the upgrades as done; an older
one runs the upgrades and records the tables. Repeatable files run if their text has changed since.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath

from londiste.errors import InstallError
from londiste.install.ledger import COMPONENT, Installed, LedgerEntry
from londiste.install.source import Component, FileKind, SourceFile, version_key


class Action(StrEnum):
    """What to do with a file."""

    RUN = "run"  # its text is executed and remembered
    NOTE = "note"  # it is remembered only: the schema has its effect already
    FORGET = "forget"  # its row leaves the ledger: what it made is gone or made elsewhere


@dataclass(frozen=True)
class PlanStep:
    """One file, what to do with it, and why."""

    component: str
    path: str
    action: Action
    reason: str
    entry: LedgerEntry
    text: str = ""


@dataclass(frozen=True)
class InstallPlan:
    """The steps for one component in one database, in order."""

    component: str
    version: str
    installed: str | None
    steps: tuple[PlanStep, ...]
    waiting: tuple[str, ...]  # after-files that run when the last old program is gone
    leftovers: tuple[str, ...]  # files that no longer exist but whose objects do


def plan(component: Component, installed: Installed, *, after: bool = False) -> InstallPlan:
    """The steps that bring ``installed`` to ``component``; no steps if it is up to date.

    after -- run the upgrades that break programs of the previous release, too.

    Raises InstallError if the schema has another origin, is newer, or was changed in a way that no
    file can repair.
    """
    refuse(component, installed)
    new = installed.version is None
    waiting = () if after else _waiting(component, installed)
    steps: list[PlanStep] = []
    if new:
        steps += _first(component)
    else:
        steps += _next(component, installed, set(waiting))
    leftovers = []
    for path in _gone(component, installed):
        if _object(path) in installed.names and _object(path) not in _objects(component):
            leftovers.append(path)
        else:
            steps.append(_step(component, path, Action.FORGET, "file is gone", LedgerEntry("", "")))
    entry = LedgerEntry(component.sha256, component.version)
    if installed.files.get(COMPONENT) != entry:
        steps.append(_step(component, COMPONENT, Action.NOTE, _why(component, installed), entry))
    return InstallPlan(
        component.name,
        component.version,
        installed.version,
        tuple(steps),
        tuple(waiting),
        tuple(leftovers),
    )


def refuse(component: Component, installed: Installed) -> None:
    """Raises InstallError if nothing may be run in this schema."""
    name = component.name
    if installed.extension is not None:
        raise InstallError(
            f"schema {name} belongs to the extension {installed.extension}",
            detail="objects of an extension cannot be replaced file by file",
            hint="adopt it with its rows and triggers: londiste install --adopt",
        )
    if installed.foreign:
        raise InstallError(
            f"schema {name} was not made by londiste install",
            detail=f"it has {len(installed.names)} tables and functions and no ledger",
            hint=f"use another database, or drop the schema first: DROP SCHEMA {name} CASCADE",
        )
    if installed.rowless:
        raise InstallError(
            f"schema {name} was restored without its rows",
            detail=f"it has {len(installed.names)} tables and functions, and its ledger is empty",
            hint=f"restore the rows as well, or drop the schema first: DROP SCHEMA {name} CASCADE",
        )
    if installed.version and version_key(installed.version) > version_key(component.version):
        raise InstallError(
            f"schema {name} has version {installed.version}, newer than {component.version}"
            " of this program",
            hint="upgrade the program: pip install --upgrade londiste4",
        )
    for file in edited(component, installed):
        raise InstallError(
            f"{name}/{file.path} was changed after its execution",
            detail="an upgrade runs once: this database will not run the changed text",
            hint="restore the file (install the released package) and put the change into a new"
            " upgrade file",
        )


def edited(component: Component, installed: Installed) -> list[SourceFile]:
    """Upgrades whose text differs from the one that ran in this database."""
    return [
        file
        for file in component.of(FileKind.UPGRADE, FileKind.AFTER)
        if file.path in installed.files and installed.files[file.path].sha256 != file.sha256
    ]


def changed(component: Component, installed: Installed) -> list[SourceFile]:
    """Repeatable and table files that are new, or whose text has changed since their last run."""
    return [
        file
        for file in component.files
        if (file.kind.repeatable or file.kind is FileKind.TABLE)
        and (file.path not in installed.files or installed.files[file.path].sha256 != file.sha256)
    ]


def pending(component: Component, installed: Installed, kind: FileKind) -> list[SourceFile]:
    """Upgrades that did not run in this database yet."""
    return [file for file in component.of(kind) if file.path not in installed.files]


def _first(component: Component) -> Iterator[PlanStep]:
    for file in component.in_order():
        if file.kind in {FileKind.UPGRADE, FileKind.AFTER}:
            yield _file(component, file, Action.NOTE, "a new schema has it")
        else:
            yield _file(component, file, Action.RUN, "new")


def _next(component: Component, installed: Installed, waiting: set[str]) -> list[PlanStep]:
    upgrades = {
        file.path
        for file in component.of(FileKind.UPGRADE, FileKind.AFTER)
        if file.path not in installed.files and file.path not in waiting
    }
    differing = {file.path for file in changed(component, installed)}
    _refuse_changed_tables(component, installed, differing, upgrades)
    steps: list[PlanStep] = []
    for file in component.in_order():
        match file.kind:
            case FileKind.UPGRADE | FileKind.AFTER if file.path in upgrades:
                steps.append(_file(component, file, Action.RUN, f"upgrade to {file.release}"))
            case FileKind.TABLE if file.path in differing:
                steps.append(_file(component, file, Action.NOTE, "the upgrades have done it"))
            case kind if kind.repeatable and file.path in differing:
                reason = "changed" if file.path in installed.files else "new"
                steps.append(_file(component, file, Action.RUN, reason))
            case FileKind.GRANTS if any(step.action is Action.RUN for step in steps):
                # What an upgrade or a new function file made has no grants yet.
                steps.append(_file(component, file, Action.RUN, "other files ran"))
    return steps


def _refuse_changed_tables(
    component: Component, installed: Installed, differing: set[str], upgrades: set[str]
) -> None:
    tables = [file.path for file in component.of(FileKind.TABLE) if file.path in differing]
    if not tables or upgrades or installed.version != component.version:
        return
    raise InstallError(
        f"{component.name}/{tables[0]} was changed without an upgrade file",
        detail=(
            f"this database has {component.name} {installed.version} already; files of tables/"
            " run in a new schema only"
        ),
        hint=(
            f"add an upgrade file under upgrades/{component.version}, or create the schema"
            f" again: londiste uninstall --allow-data-loss {component.name}, then londiste install"
        ),
    )


def _waiting(component: Component, installed: Installed) -> tuple[str, ...]:
    """After-files of the installed release wait; those of earlier releases do not.

    Programs and SQL may be one release apart.  When a newer release comes, no program of the
    release before the installed one may run any more.
    """
    if installed.version is None:
        return ()
    moves_on = version_key(installed.version) < version_key(component.version)
    return tuple(
        file.path
        for file in pending(component, installed, FileKind.AFTER)
        if not (moves_on and version_key(file.release) <= version_key(installed.version))
    )


def _gone(component: Component, installed: Installed) -> list[str]:
    """Recorded files that the component no longer has; upgrades are history and stay."""
    have = {file.path for file in component.files} | {COMPONENT}
    return sorted(
        path for path in installed.files if path not in have and not path.startswith("upgrades/")
    )


def _objects(component: Component) -> set[str]:
    kinds = (FileKind.TABLE, FileKind.FUNCTION, FileKind.TRIGGER)
    return {_object(file.path) for file in component.of(*kinds)}


def _object(path: str) -> str:
    """The table or function that a file creates: its name without the number prefix."""
    stem = PurePosixPath(path).stem
    number, _, name = stem.partition("_")
    return name if number.isdigit() and name else stem


def _file(component: Component, file: SourceFile, action: Action, reason: str) -> PlanStep:
    text = file.text if action is Action.RUN else ""
    entry = LedgerEntry(file.sha256, component.version)
    return PlanStep(component.name, file.path, action, reason, entry, text)


def _step(
    component: Component, path: str, action: Action, reason: str, entry: LedgerEntry
) -> PlanStep:
    return PlanStep(component.name, path, action, reason, entry)


def _why(component: Component, installed: Installed) -> str:
    if installed.version is None:
        return "new"
    if installed.version == component.version:
        return "changed"
    return f"version {installed.version} becomes {component.version}"
