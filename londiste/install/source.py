"""SQL files of a component: list, order and checksums.

A component is a folder of ``sql/`` with a ``component.toml``; it owns the schema of its name.
Folders without that file are not components (for example ``queries``).
"""

from __future__ import annotations

import functools
import hashlib
import re
import threading
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from londiste.db.queries import sql_root
from londiste.errors import BadOption, InstallError


class FileKind(StrEnum):
    """The purpose of a file, from its place in the folder."""

    SCHEMA = "schema"
    TABLE = "table"
    FUNCTION = "function"
    TRIGGER = "trigger"
    GRANTS = "grants"
    UPGRADE = "upgrade"  # before the new program starts
    AFTER = "after"  # when the last old program is gone

    @property
    def repeatable(self) -> bool:
        """The file may run any number of times; it does when its text changed."""
        return self in _REPEATABLE


_REPEATABLE = {FileKind.SCHEMA, FileKind.FUNCTION, FileKind.TRIGGER, FileKind.GRANTS}


@dataclass(frozen=True)
class SourceFile:
    """One SQL file; ``path`` is relative to the component's folder, with slashes."""

    path: str
    kind: FileKind
    text: str
    sha256: str

    @property
    def release(self) -> str:
        """The version an upgrade file belongs to; empty for every other file."""
        return self.path.split("/")[1] if self.kind in {FileKind.UPGRADE, FileKind.AFTER} else ""


@dataclass(frozen=True)
class Component:
    """A component: name, requirements, and its files in the order they run."""

    name: str
    version: str
    requires: tuple[str, ...]
    sha256: str
    files: tuple[SourceFile, ...]

    def of(self, *kinds: FileKind) -> list[SourceFile]:
        """The files of these kinds, in order."""
        return [file for file in self.files if file.kind in kinds]

    def in_order(self) -> list[SourceFile]:
        """All files as they run: an after-file of this very release drops what the functions of
        this release replace, so it runs after them; one of an earlier release has its
        replacement already.
        """
        late = {
            file.path
            for file in self.of(FileKind.AFTER)
            if version_key(file.release) == version_key(self.version)
        }
        grants = self.of(FileKind.GRANTS)
        early = [file for file in self.files if file.path not in late and file not in grants]
        return [*early, *(file for file in self.files if file.path in late), *grants]


def load(root: Path | None = None) -> dict[str, Component]:
    """All components below ``root`` (default: the SQL of this program), required ones first.

    Those of this program are read once: several hundred files.  Raises InstallError for a folder
    that cannot be used.
    """
    if root is not None:
        return _load(root)
    # The threads of a ticker that start together need them at once.
    with _READING:
        return dict(_own(sql_root()))


_READING = threading.Lock()


@functools.cache
def _own(root: Path) -> dict[str, Component]:
    return _load(root)


def _load(root: Path) -> dict[str, Component]:
    found = {
        folder.name: _component(folder)
        for folder in sorted(root.iterdir())
        if (folder / "component.toml").is_file()
    }
    ordered: dict[str, Component] = {}
    for name in found:
        _place(found, name, ordered, ())
    return ordered


def of_queues(components: Mapping[str, Component]) -> list[str]:
    """The names of the queue components, without those of replication."""
    return [name for name in components if name.startswith("pgq") and name != "pgq_node"]


def select(components: Mapping[str, Component], names: Sequence[str] | None) -> list[Component]:
    """The named components and their requirements, required ones first; all for None.

    Raises BadOption for a name that is no component.
    """
    if not names:
        return list(components.values())
    wanted: set[str] = set()
    for name in names:
        if name not in components:
            raise BadOption(
                f"no component {name}", hint="components: " + ", ".join(components) or "none"
            )
        _require(components, name, wanted)
    return [component for name, component in components.items() if name in wanted]


_PRE_RELEASE = {"dev": 0, "a": 1, "b": 2, "rc": 3, "": 4}
_VERSION = re.compile(r"^(\d+)\.(\d+)(?:\.(\d+))?(?:\.?(dev|a|b|rc)(\d+))?$")


def version_key(version: str) -> tuple[int, int, int, int, int]:
    """Sort key of a version: 4.0.0.dev1 < 4.0.0a1 < 4.0.0rc1 < 4.0.0 < 4.0.1."""
    match = _VERSION.match(version)
    if match is None:
        raise InstallError(
            f"not a version: {version}", hint="write it as 4.1.0, 4.1.0a1, 4.1.0rc1 or 4.1.0.dev1"
        )
    major, minor, patch, word, count = match.groups()
    return int(major), int(minor), int(patch or 0), _PRE_RELEASE[word or ""], int(count or 0)


def checksum(text: str) -> str:
    """Checksum that ignores line ends."""
    return hashlib.sha256(text.replace("\r\n", "\n").encode()).hexdigest()


def _component(folder: Path) -> Component:
    text = (folder / "component.toml").read_text(encoding="utf-8")
    try:
        head = tomllib.loads(text)
        name, version = str(head["name"]), str(head["version"])
        requires = tuple(str(one) for one in head.get("requires", []))
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise InstallError(
            f"{folder.name}/component.toml cannot be read: {error}",
            hint="add name, version and requires",
        ) from error
    if name != folder.name:
        raise InstallError(
            f"component {name} is in the folder {folder.name}", hint="use the same name for both"
        )
    version_key(version)
    files = (
        *_files(folder, "schema.sql", FileKind.SCHEMA),
        *_files(folder, "tables/*.sql", FileKind.TABLE),
        *_upgrades(folder, version),
        *_files(folder, "functions/**/*.sql", FileKind.FUNCTION),
        *_files(folder, "triggers/**/*.sql", FileKind.TRIGGER),
        *_files(folder, "grants.sql", FileKind.GRANTS),
    )
    return Component(name, version, requires, checksum(text), files)


def _files(folder: Path, pattern: str, kind: FileKind) -> list[SourceFile]:
    return [_read(folder, path, kind) for path in sorted(folder.glob(pattern))]


def _upgrades(folder: Path, version: str) -> list[SourceFile]:
    files: list[SourceFile] = []
    for release in sorted(
        (path for path in folder.glob("upgrades/*") if path.is_dir()),
        key=lambda path: version_key(path.name),
    ):
        if version_key(release.name) > version_key(version):
            raise InstallError(
                f"{folder.name}/upgrades/{release.name} is newer than {folder.name} {version}",
                hint="raise the version in component.toml",
            )
        paths = sorted(release.glob("*.sql"))
        before = [path for path in paths if not path.name.startswith("after-")]
        after = [path for path in paths if path.name.startswith("after-")]
        files += [_read(folder, path, FileKind.UPGRADE) for path in before]
        files += [_read(folder, path, FileKind.AFTER) for path in after]
    return files


def _read(folder: Path, path: Path, kind: FileKind) -> SourceFile:
    text = path.read_text(encoding="utf-8")
    return SourceFile(path.relative_to(folder).as_posix(), kind, text, checksum(text))


def _place(
    found: Mapping[str, Component], name: str, ordered: dict[str, Component], above: tuple[str, ...]
) -> None:
    if name in ordered:
        return
    if name not in found:
        raise InstallError(
            f"component {above[-1]} requires {name}, which is missing",
            hint="reinstall the package: pip install --force-reinstall londiste4",
        )
    if name in above:
        raise InstallError(
            "components require each other: " + " -> ".join((*above, name)),
            hint="correct requires in component.toml",
        )
    for required in found[name].requires:
        _place(found, required, ordered, (*above, name))
    ordered[name] = found[name]


def _require(components: Mapping[str, Component], name: str, wanted: set[str]) -> None:
    wanted.add(name)
    for required in components[name].requires:
        _require(components, required, wanted)
