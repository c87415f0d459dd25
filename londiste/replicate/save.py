"""Settings file of a replication: ``londiste.toml`` with its nodes and tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from londiste.configfile import toml_value
from londiste.daemon.files import write_atomically, write_hint
from londiste.db.names import TableName
from londiste.dsn import place, without_secrets
from londiste.errors import BadOption
from londiste.replicate.databases import Replication
from londiste.replicate.setup import Selection, Share
from londiste.replication.patterns import escaped, matches


def text(replication: Replication, selection: Selection) -> str:
    """Pure: the file; without passwords."""
    source = replication.source
    lines = ["[queue]", f"name = {toml_value(replication.queue)}", ""]
    for node in replication.all:
        lines += [
            f"[nodes.{toml_value(node.name)}]",
            f"db = {toml_value(without_secrets(node.complete))}",
            f"role = {toml_value('root' if node is source else 'leaf')}",
        ]
        if node is not source:
            lines.append(f"provider = {toml_value(source.name)}")
        lines += [f"worker = {toml_value(node.worker)}", ""]
    lines += ["[tables]", f"include = {toml_value(_include(selection))}"]
    if selection.exclude and selection.only is None:
        lines.append(f"exclude = {toml_value(selection.exclude)}")
    if selection.allow_code:
        lines.append("allow_code = true")
    if selection.where:
        lines += ["", '[tables."*.*"]', f"where = {toml_value(selection.where)}"]
    lines += ["", "[worker]", f"engine = {toml_value(replication.settings.engine)}"]
    return "\n".join(lines) + "\n"


def _include(selection: Selection) -> list[str]:
    """Patterns of the selected tables: those of the given patterns in the given schemas.

    The tables of one of several queues have their names: a pattern would select those of others.
    """
    if selection.only is not None:
        return sorted(escaped(name) for name in selection.only)
    if not selection.schemas:
        return list(selection.patterns) or ["*.*"]
    wanted = [TableName.parse(text) for text in selection.patterns] or [TableName("*", "*")]
    return [
        f"{escaped(TableName(schema, 'x')).removesuffix('.x')}.{one.name}"
        for one in wanted
        for schema in selection.schemas
        if matches(TableName(schema, "x"), [f"{one.schema}.x"])
    ]


def files(path: Path, shares: Sequence[Share]) -> dict[Path, str]:
    """Pure: the files and their contents, one for each queue: the second one is ``NAME_2.toml``."""
    numbered = (f"{path.stem}_{n}" if n > 1 else path.stem for n in range(1, len(shares) + 1))
    return {
        path.with_stem(stem): text(share.replication, share.selection)
        for stem, share in zip(numbered, shares, strict=True)
    }


def concerns(databases: Sequence[str], dsns: Sequence[str]) -> bool:
    """Pure: whether a settings file is about these databases.

    databases -- those of the file; one that names none is about any.
    """
    places = [place(dsn, os.environ) for dsn in databases]
    return not places or all(place(dsn, os.environ) in places for dsn in dsns)


def require_free(path: Path, content: str) -> None:
    """Raises BadOption for a file with another content, or one that cannot be read or written."""
    try:
        same = path.stat().st_size == len(content.encode()) and (
            path.read_bytes() == content.encode()
        )
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise BadOption(
                f"--save {path}: No such file or directory",
                hint="choose a file in a directory that exists",
            ) from None
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise BadOption(
                f"--save {path}: Permission denied",
                hint="choose a file in a directory that you may write",
            ) from None
        return
    except OSError as error:
        raise BadOption(
            f"--save {path}: {error.strerror}", hint="choose a file in a directory that exists"
        ) from None
    if not same:
        raise BadOption(
            f"--save {path}: the file exists, with another content",
            hint="choose another name, or remove the file",
        )


def write(path: Path, content: str) -> None:
    """Writes the file, which only this user may read.  Raises BadOption."""
    require_free(path, content)
    if path.exists():
        return
    try:
        write_atomically(path, content, replace=False)
    except OSError as error:
        name = "choose another name, in a directory that exists"
        raise BadOption(f"--save {path}: {error.strerror}", hint=write_hint(error, name)) from None
