"""Subscriptions of nodes that read from another provider: they keep events without a reader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from londiste.cascade.model import NodeInfo, NodeType, Subscriber
from londiste.cascade.own_consumers import GRAVESTONE
from londiste.db.ddl import literal


def providers(settled: Iterable[NodeInfo]) -> dict[str, str]:
    """Pure: the nodes that read from another, and from which one, as they say themselves."""
    return {one.name: one.provider for one in settled if one.type is not NodeType.ROOT}


def unused(
    queue: str, node: str, below: Sequence[Subscriber], providers: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Pure: errors of a node for its subscribers that read from another node.

    below -- the subscribers that are registered at the node.
    providers -- by name of the node; without those that do not answer or change their provider now.

    A failed root that may rejoin is no error, either.
    """
    for one in below:
        reads_from = providers.get(one.name, node)
        if reads_from == node or one.worker == GRAVESTONE.format(one.name):
            continue
        yield (
            "subscription",
            f"node {one.name} is registered as a subscriber here but reads from {reads_from}:"
            " it keeps events, and holds the watermark of all nodes; hint: repeat the command that"
            f" moved it; or in the database of {node}: select pgq_node.unregister_subscriber"
            f"({literal(queue)}, {literal(one.name)})",
        )
