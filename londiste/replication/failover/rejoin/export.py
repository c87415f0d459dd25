"""Export of diverged events into two files before the rejoin: JSON lines and SQL.

    FILE.jsonl   a header line, then one event per line with all its fields
    FILE.sql     the row changes as statements, to review and run on the new root

Both are readable by their owner only, are never overwritten, and get their names when they are
complete.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from uuid import UUID

from londiste.changes.types import ExecuteScript, Op, RowChange, Truncate
from londiste.daemon.files import atomic_file
from londiste.db.ddl import line_literal, line_name
from londiste.db.names import TableName
from londiste.errors import StateError
from londiste.pgq.types import Event
from londiste.replication.failover.rejoin.divergence import changes


@dataclass(frozen=True)
class Files:
    """Paths of the two files."""

    lines: Path
    sql: Path

    @classmethod
    def at(cls, given: str, queue: str, node: str, tick: int) -> Files:
        """``given``.jsonl and ``given``.sql; in a directory under a name of its own."""
        base = Path(given or ".")
        if not given or base.is_dir():
            name = f"lost-{queue}-{node}-{tick}"
            base = base / re.sub(r"[^A-Za-z0-9_.-]", "_", name)
        return cls(base.with_name(base.name + ".jsonl"), base.with_name(base.name + ".sql"))

    def complete(self, token: UUID) -> bool:
        """Whether both exist, from this rejoin.  StateError: a different file exists."""
        for path, first in ((self.lines, "{"), (self.sql, "-- {")):
            try:
                with path.open(encoding="utf-8") as file:
                    head = file.readline()
            except FileNotFoundError:
                return False
            except (OSError, UnicodeDecodeError) as error:
                raise _trouble("read", path, error) from error
            if not head.startswith(first) or str(token) not in head:
                raise StateError(
                    f"file {path} exists and is from another operation",
                    detail="nothing was overwritten",
                    hint="remove it, or use another path: --export FILE",
                )
        return True


def write(files: Files, events: Iterable[Event], facts: Mapping[str, Any], token: UUID) -> int:
    """Writes both files; the number of events.  Raises StateError when it cannot."""
    if files.complete(token):
        return 0
    count = 0
    head = json.dumps({**facts, "token": str(token)})
    with _new(files.sql) as sql, _new(files.lines) as lines:
        lines.write(head + "\n")
        sql.write(_preface(head))

        def noted() -> Iterator[Event]:
            nonlocal count
            for event in events:
                count += 1
                lines.write(json.dumps(_plain(event), ensure_ascii=True) + "\n")
                yield event

        for event, change in changes(noted()):
            for line in _statement(event, change):
                sql.write(line + "\n")
        sql.write("\ncommit;\n")
    return count


def events(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a file of JSON lines, without its first line."""
    with path.open(encoding="utf-8") as file:
        next(file)
        for line in file:
            yield json.loads(line)


def _plain(event: Event) -> dict[str, Any]:
    return {**event._asdict(), "time": event.time.isoformat()}


def _preface(head: str) -> str:
    return "\n".join(
        [
            f"-- {head}",
            "-- Changes on a failed root that no other node has. The same rows may have changed",
            "-- elsewhere since: review the statements, delete the unwanted ones, and run",
            "-- the rest on the present root. The other file has the rows before each update.",
            "",
            "begin;",
            "",
        ]
    )


def _statement(event: Event, change: object) -> Iterator[str]:
    yield f"-- event {event.id}, {event.time.isoformat()}, transaction {event.txid}"
    if isinstance(change, RowChange):
        yield _row(change)
    elif isinstance(change, Truncate):
        yield f"truncate {_table(change.table)};"
    elif isinstance(change, ExecuteScript):
        yield f"-- script {json.dumps(change.name)}: see the other file"
    else:
        yield f"-- of type {json.dumps(event.type)}: see the other file"


def _row(change: RowChange) -> str:
    table, key, image = _table(change.table), change.key, change.image
    names = ", ".join(map(line_name, image))
    values = ", ".join(map(_value, image.values()))
    insert = f"insert into {table} ({names}) overriding system value values ({values})"  # noqa: S608
    others = [name for name in image if name not in key]
    if change.op is Op.INSERT and not change.state:
        return insert + ";"
    if change.op is Op.INSERT:
        told = ", ".join(f"{line_name(n)} = excluded.{line_name(n)}" for n in others)
        which = ", ".join(map(line_name, key))
        return f"{insert} on conflict ({which}) do {f'update set {told}' if told else 'nothing'};"
    where = " and ".join(
        f"{line_name(n)} is null" if image[n] is None else f"{line_name(n)} = {_value(image[n])}"
        for n in key or image
    )
    if change.op is Op.DELETE:
        return f"delete from {table} where {where};"  # noqa: S608
    if not others:
        return f"-- only the key columns of {table} are known where {where}"
    sets = ", ".join(f"{line_name(n)} = {_value(image[n])}" for n in others)
    return f"update {table} set {sets} where {where};"  # noqa: S608


def _table(name: TableName) -> str:
    return f"{line_name(name.schema)}.{line_name(name.name)}"


def _value(text: str | None) -> str:
    return "null" if text is None else line_literal(text)


@contextlib.contextmanager
def _new(path: Path) -> Iterator[IO[str]]:
    """A file that gets its name when complete, readable by its owner only."""
    try:
        # A file of that name has the same content, from a run that was killed after writing it.
        with contextlib.suppress(FileExistsError), atomic_file(path, replace=False) as file:
            yield file
    except OSError as error:
        raise _trouble("write", path, error) from error


def _trouble(verb: str, path: Path, error: Exception) -> StateError:
    return StateError(
        f"cannot {verb} {path}: {getattr(error, 'strerror', None) or error}",
        detail="the diverged events are still in the queue; nothing was changed",
        hint="repeat the command with a writable path: --export FILE",
    )
