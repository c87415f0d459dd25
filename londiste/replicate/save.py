"""Settings file of a replication: ``londiste.toml`` with its nodes and tables."""

from __future__ import annotations

import json
import os
from pathlib import Path

from londiste.errors import BadOption
from londiste.replicate.databases import Replication
from londiste.replicate.setup import Selection


def text(replication: Replication, selection: Selection) -> str:
    """Pure: the file; without passwords."""
    source = replication.source
    lines = ["[queue]", f"name = {_string(replication.queue)}", ""]
    for node in replication.all:
        lines += [
            f"[nodes.{_string(node.name)}]",
            f"db = {_string(node.location)}",
            f"role = {_string('root' if node is source else 'leaf')}",
        ]
        if node is not source:
            lines.append(f"provider = {_string(source.name)}")
        lines += [f"worker = {_string(node.worker)}", ""]
    include = selection.patterns or tuple(f"{name}.*" for name in selection.schemas) or ("*.*",)
    lines += ["[tables]", f"include = {_strings(include)}"]
    if selection.exclude:
        lines.append(f"exclude = {_strings(selection.exclude)}")
    if selection.where:
        lines += ["", '[tables."*.*"]', f"where = {_string(selection.where)}"]
    lines += ["", "[worker]", f"engine = {_string(replication.settings.engine)}"]
    return "\n".join(lines) + "\n"


def require_free(path: Path, content: str) -> None:
    """Raises BadOption for a file with another content."""
    if path.exists() and path.read_text(encoding="utf-8") != content:
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
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise BadOption(
            f"--save {path}: {error.strerror}", hint="choose a file in a directory that exists"
        ) from None
    with os.fdopen(file, "w", encoding="utf-8") as opened:
        opened.write(content)


def _string(value: str) -> str:
    return json.dumps(value)


def _strings(values: tuple[str, ...]) -> str:
    return json.dumps(list(values))
