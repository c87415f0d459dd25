"""Statements of the queue shell as values.  ``queue`` None is the current queue."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True)
class Connect:
    """Connect to another database, or another queue or node of it."""

    parameters: dict[str, str]


@dataclass(frozen=True)
class Install:
    component: str


@dataclass(frozen=True)
class CreateQueue:
    queue: str


@dataclass(frozen=True)
class DropQueue:
    queue: str
    force: bool = False


@dataclass(frozen=True)
class AlterQueue:
    """``queue`` is ``*`` for all queues."""

    queue: str
    settings: dict[str, str]


@dataclass(frozen=True)
class ShowQueue:
    queue: str | None = None


@dataclass(frozen=True)
class ShowConsumer:
    consumer: str = "*"
    queue: str | None = None


@dataclass(frozen=True)
class ShowNode:
    node: str | None = None
    queue: str | None = None


@dataclass(frozen=True)
class ShowBatch:
    """``batch`` is a number or the name of a consumer."""

    batch: str


@dataclass(frozen=True)
class ShowTable:
    table: str


@dataclass(frozen=True)
class ShowSequence:
    sequence: str


@dataclass(frozen=True)
class ShowVersion:
    pass


@dataclass(frozen=True)
class ShowHelp:
    pass


@dataclass(frozen=True)
class RegisterConsumer:
    consumer: str
    queue: str | None = None
    tick: str | None = None
    copy: str | None = None


@dataclass(frozen=True)
class UnregisterConsumer:
    """``consumer`` is ``*`` for all consumers."""

    consumer: str
    queue: str | None = None


@dataclass(frozen=True)
class RegisterSubconsumer:
    subconsumer: str
    consumer: str
    queue: str | None = None


@dataclass(frozen=True)
class UnregisterSubconsumer:
    """``subconsumer`` is ``*`` for all subconsumers."""

    subconsumer: str
    consumer: str
    queue: str | None = None
    close: bool = False


@dataclass(frozen=True)
class AddTables:
    """``options`` as written after WITH: name to value, None without a value."""

    tables: tuple[str, ...]
    options: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class AddSequences:
    sequences: tuple[str, ...]


@dataclass(frozen=True)
class RemoveTables:
    tables: tuple[str, ...]


@dataclass(frozen=True)
class RemoveSequences:
    sequences: tuple[str, ...]


@dataclass(frozen=True)
class ListTables:
    pass


@dataclass(frozen=True)
class ListSequences:
    pass


@dataclass(frozen=True)
class ListMissing:
    pass


@dataclass(frozen=True)
class Exit:
    pass


@dataclass(frozen=True)
class Sql:
    """SQL for the server."""

    text: str


Statement: TypeAlias = (
    Connect
    | Install
    | CreateQueue
    | DropQueue
    | AlterQueue
    | ShowQueue
    | ShowConsumer
    | ShowNode
    | ShowBatch
    | ShowTable
    | ShowSequence
    | ShowVersion
    | ShowHelp
    | RegisterConsumer
    | UnregisterConsumer
    | RegisterSubconsumer
    | UnregisterSubconsumer
    | AddTables
    | AddSequences
    | RemoveTables
    | RemoveSequences
    | ListTables
    | ListSequences
    | ListMissing
    | Exit
    | Sql
)
