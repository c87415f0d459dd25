"""The table of six kinds of nodes is the test of it."""

from __future__ import annotations

import itertools

import pytest

from londiste.cascade.model import NodeType
from londiste.cascade.worker_role import BatchActions, Forward, duties
from londiste.errors import StateError

ROOT, BRANCH, LEAF = NodeType.ROOT, NodeType.BRANCH, NodeType.LEAF

SIX = {
    (ROOT, None, False): BatchActions(publish_global=True),
    (BRANCH, None, False): BatchActions(
        process=True,
        apply=True,
        forward=Forward.ALL,
        keep_ids=True,
        make_tick=True,
        report_watermark=True,
    ),
    (BRANCH, None, True): BatchActions(
        process=True,
        apply=True,
        forward=Forward.ALL,
        keep_ids=True,
        make_tick=True,
        own_watermark=True,
    ),
    (LEAF, None, False): BatchActions(process=True, apply=True, report_watermark=True),
    (LEAF, ROOT, False): BatchActions(
        process=True, apply=True, forward=Forward.DATA, send_tick_id=True, report_watermark=True
    ),
    (LEAF, BRANCH, False): BatchActions(process=True, wait_behind=True, report_watermark=True),
}


@pytest.mark.parametrize("kind", SIX)
def test_every_kind_of_node_has_its_duties(
    kind: tuple[NodeType, NodeType | None, bool],
) -> None:
    node, combined, own = kind
    assert duties(node, combined, own_watermark=own) == SIX[kind]


def test_there_is_no_seventh_kind() -> None:
    everything = itertools.product(NodeType, [None, *NodeType], [False, True])
    for node, combined, own in everything:
        if (node, combined, own) not in SIX:
            with pytest.raises(StateError):
                duties(node, combined, own_watermark=own)


def test_only_who_takes_batches_writes_anything() -> None:
    for one in SIX.values():
        busy = one.apply or one.make_tick or one.send_tick_id or one.forward is not Forward.NOTHING
        assert one.process or not busy


def test_who_makes_ticks_keeps_the_ids() -> None:
    assert all(one.keep_ids is one.make_tick for one in SIX.values())
