"""Actions of a worker for each batch, by the type of its node.

    node                     batches  apply  copy to own  same ids  make the  send     wait for
                                             queue        and ticks tick      tick-id  combined
    root                     -        -      -            -         -         -        -
    branch                   x        x      all          x         x         -        -
    branch, own watermark    x        x      all          x         x         -        -
    leaf                     x        x      -            -         -         -        -
    leaf merging into root   x        x      data only    -         -         x        -
    leaf merging into branch x        -      -            -         -         -        x

A branch that keeps its own watermark does not report its subtree upstream; it forwards that
watermark instead of the root's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from londiste.cascade.model import NodeType
from londiste.errors import StateError


class Forward(StrEnum):
    """Which events of a batch go into a queue of this database."""

    NOTHING = "nothing"
    ALL = "all"
    DATA = "data"  # without pgq.* and londiste.*


@dataclass(frozen=True)
class BatchActions:
    """One row of the table above.

    process -- takes batches from its provider.
    apply -- writes the rows into its tables; control messages are followed in any case.
    forward -- what it copies into the local (or combined) queue.
    keep_ids -- copied events keep their ids, batches their tick ids.
    make_tick -- creates the provider's tick in the local queue.
    send_tick_id -- writes this part's position into the combined queue.
    wait_behind -- never passes the position that came through the combined queue.
    publish_global -- computes and publishes the global watermark.
    report_watermark -- reports its subtree's watermark to the provider.
    own_watermark -- keeps a watermark for its subtree instead of the root's.
    """

    process: bool = False
    apply: bool = False
    forward: Forward = Forward.NOTHING
    keep_ids: bool = False
    make_tick: bool = False
    send_tick_id: bool = False
    wait_behind: bool = False
    publish_global: bool = False
    report_watermark: bool = False
    own_watermark: bool = False


_ROOT = BatchActions(publish_global=True)
_BRANCH = BatchActions(
    process=True,
    apply=True,
    forward=Forward.ALL,
    keep_ids=True,
    make_tick=True,
    report_watermark=True,
)
_SYNC_BRANCH = BatchActions(
    process=True,
    apply=True,
    forward=Forward.ALL,
    keep_ids=True,
    make_tick=True,
    own_watermark=True,
)
_LEAF = BatchActions(process=True, apply=True, report_watermark=True)
_LEAF_TO_ROOT = BatchActions(
    process=True, apply=True, forward=Forward.DATA, send_tick_id=True, report_watermark=True
)
_LEAF_TO_BRANCH = BatchActions(process=True, wait_behind=True, report_watermark=True)


def duties(
    node_type: NodeType, combined_type: NodeType | None = None, *, own_watermark: bool = False
) -> BatchActions:
    """The actions of a worker.

    combined_type -- type of the local node of the queue a leaf merges into, None when it merges
        into none.
    own_watermark -- the branch has the attribute ``sync_watermark``.

    Raises StateError for a combination that cannot be created.
    """
    match node_type, combined_type, own_watermark:
        case NodeType.ROOT, None, False:
            return _ROOT
        case NodeType.BRANCH, None, False:
            return _BRANCH
        case NodeType.BRANCH, None, True:
            return _SYNC_BRANCH
        case NodeType.LEAF, None, False:
            return _LEAF
        case NodeType.LEAF, NodeType.ROOT, False:
            return _LEAF_TO_ROOT
        case NodeType.LEAF, NodeType.BRANCH, False:
            return _LEAF_TO_BRANCH
    raise StateError(
        f"invalid node: {node_type.value}"
        + (f" merging into a {combined_type.value}" if combined_type else "")
        + (" with a watermark of its own" if own_watermark else ""),
        hint="only a leaf merges, into a root or branch; only a branch has sync_watermark",
    )
