"""Subscriptions without a reader, which keep events; readers without a registration or a queue."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from londiste.cascade import create_hint
from londiste.cascade.model import NodeInfo, NodeType, Subscriber
from londiste.cascade.own_consumers import GRAVESTONE
from londiste.db.ddl import literal
from londiste.db.names import argument, word


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


def unregistered(
    node: str, below: Sequence[Subscriber], consumers: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Pure: errors of a node for its subscribers whose worker is no consumer of its queue any more.

    below -- the subscribers that are registered at the node.  consumers -- of its queue, by name.
    """
    for one in below:
        if one.worker not in consumers:
            yield (
                one.worker,
                f"node {node}: the worker of subscriber {one.name} is not registered any more, and"
                f" node {one.name} gets nothing; hint: londiste change-provider --node"
                f" {argument(one.name)} --provider {argument(node)}",
            )


def lost_queue(queue: str, node: NodeInfo) -> str:
    """Pure: the error of a root or branch that has no queue any more."""
    if node.type is NodeType.ROOT:
        drop = f"select pgq_node.drop_node({literal(queue)}, {literal(node.name)})"
        return (
            "it does not exist any more: writes to replicated tables may fail, and no node gets"
            " events;"
            f" hint: in the database of node {node.name}: {drop}; then create all nodes again,"
            f" first: londiste create-root {word(node.name)}"
        )
    return (
        "it does not exist any more: the worker fails, and nodes below get no events;"
        f" hint: londiste drop-node {argument(node.name)}; then create the node again:"
        f" {create_hint.create(NodeType.BRANCH, node.name, provider=node.provider_location)}"
    )
