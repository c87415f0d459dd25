"""The words of the cascade as values: node, member, subscriber, position."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class NodeType(StrEnum):
    """What a database is in a queue."""

    ROOT = "root"
    BRANCH = "branch"
    LEAF = "leaf"


class NodeCase(StrEnum):
    """What a database is in a queue, merging included.

    The queue of a combined root or branch is merged into by other queues of the database; a merge
    leaf merges its own.
    """

    ROOT = "root"
    BRANCH = "branch"
    LEAF = "leaf"
    COMBINED_ROOT = "combined-root"
    COMBINED_BRANCH = "combined-branch"
    MERGE_LEAF = "merge-leaf"


@dataclass(frozen=True)
class Member:
    """A node that somebody has heard of, and where it lives.

    location -- connection string without a password.
    dead -- an administrator has given it up.
    """

    name: str
    location: str
    dead: bool = False


@dataclass(frozen=True)
class Subscriber:
    """A node that reads from this one; ``watermark`` is what it has reported."""

    name: str
    worker: str
    watermark: int | None


@dataclass(frozen=True)
class NodeInfo:
    """What one database is in one queue, and how far it is.

    provider -- name of the node it reads from; the root names itself.
    local_watermark -- this node and everything below it have finished it.
    global_watermark -- every node of the cascade has finished it; None on a leaf.
    last_tick -- what the worker has finished; on the root its newest tick.
    attrs -- url-encoded, or None.
    target_for -- queues of this database that merge into this one.
    """

    queue: str
    type: NodeType
    name: str
    provider: str
    provider_location: str
    worker: str
    paused: bool
    uptodate: bool
    last_tick: int
    local_watermark: int | None
    global_watermark: int | None
    combined_queue: str | None
    combined_type: NodeType | None
    attrs: str | None
    target_for: tuple[str, ...]

    @property
    def kind(self) -> NodeCase:
        """Its type, merging included."""
        if self.combined_queue is not None:
            return NodeCase.MERGE_LEAF
        if self.target_for and self.type is not NodeType.LEAF:
            return NodeCase(f"combined-{self.type.value}")
        return NodeCase(self.type.value)


@dataclass(frozen=True)
class WorkerState:
    """Everything a worker needs to know before its next batch.

    queue_top -- newest tick of the queue kept here; None on a leaf.
    """

    queue: str
    type: NodeType
    name: str
    worker: str
    completed_tick: int
    provider: str
    provider_location: str
    paused: bool
    uptodate: bool
    cur_error: str | None
    global_watermark: int | None
    local_watermark: int | None
    queue_top: int | None
    combined_queue: str | None
    combined_type: NodeType | None


@dataclass(frozen=True)
class ConsumerState:
    """Position and flags of one cascaded consumer of a node."""

    consumer: str
    node: str
    node_type: NodeType
    completed_tick: int
    provider: str
    provider_location: str
    paused: bool
    uptodate: bool
    cur_error: str | None


@dataclass(frozen=True)
class CascadedConsumer:
    """One row of ``pgq_node.get_consumer_info``."""

    name: str
    provider: str
    last_tick: int
    paused: bool
    uptodate: bool
    cur_error: str | None


@dataclass(frozen=True)
class Hold:
    """Somebody asks the worker not to pass ``tick`` for a while."""

    tick: int
