"""Values of the cascade: node, member, subscriber, position, attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote, unquote


class NodeType(StrEnum):
    """Type of a node."""

    ROOT = "root"
    BRANCH = "branch"
    LEAF = "leaf"


class NodeCase(StrEnum):
    """Type of a node, merging included.

    Other queues of the database merge into the queue of a combined root or branch.  A merge leaf
    merges its own queue into a combined one.
    """

    ROOT = "root"
    BRANCH = "branch"
    LEAF = "leaf"
    COMBINED_ROOT = "combined-root"
    COMBINED_BRANCH = "combined-branch"
    MERGE_LEAF = "merge-leaf"


@dataclass(frozen=True)
class Member:
    """A node that a database knows, and its location.

    location -- connection string without a password.
    dead -- it is marked as failed.
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
    """A node of a queue, and its position.

    provider -- name of the node it reads from; the root names itself.
    local_watermark -- finished by this node and all nodes below.
    global_watermark -- finished by all nodes of the cascade; None on a leaf.
    last_tick -- finished by the worker; on the root the newest tick.
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
        """The node's type, merging included."""
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
    """A request to the worker to pause at ``tick``."""

    tick: int


def decode_attrs(text: str | None) -> dict[str, str]:
    """The attributes ``a=1&b=x%2cy`` as a dict; a key without ``=`` has the value ''."""
    pairs: dict[str, str] = {}
    for item in (text or "").split("&"):
        if item:
            key, _, value = item.partition("=")
            pairs[unquote(key.replace("+", " "))] = unquote(value.replace("+", " "))
    return pairs


def encode_attrs(pairs: Mapping[str, str]) -> str | None:
    """The stored text of attributes, url-encoded; None without pairs."""
    return "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in pairs.items()) or None
