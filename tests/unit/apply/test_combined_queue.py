"""Forwarding of a leaf into a combined queue, and conditions of its promotion to root."""

from __future__ import annotations

from dataclasses import replace

import pytest

from londiste.cascade.model import NodeCase, NodeInfo, NodeType
from londiste.db.names import TableName
from londiste.errors import BadOption
from londiste.handlers.table_rules import HandlerAttrs
from londiste.pgq.blocks import EventBlock
from londiste.replication.apply.accumulator import LARGE
from londiste.replication.apply.routing import RoutingTable, SkippedEvents
from londiste.replication.commands.add_table_options import of_part
from londiste.replication.failover.readiness import part_findings
from londiste.replication.forwarding.combined_queue import handed
from londiste.replication.model import ReplicatedTable, TableOptions

T = TableName("public", "t")


def line(id: int, kind: str, name: str, *, txid: int = 50, data: str = "x") -> bytes:
    return f"{id}\t2026-01-01\t{txid}\t\\N\t{kind}\t{data}\t{name}\t\\N\t\\N\t\\N\n".encode()


def block(*lines: bytes) -> EventBlock:
    return EventBlock(b"".join(lines), len(lines))


def ids(some: EventBlock) -> list[int]:
    return [int(text.split(b"\t")[0]) for text in some.data.splitlines()]


def interest(**attrs: str) -> RoutingTable:
    return RoutingTable.main([ReplicatedTable(T, T, True, "ok", attrs=attrs)])


EVENTS = block(
    line(1, "I", "public.t"),
    line(2, "pgq.location-info", "one"),
    line(3, "I", "public.other"),
    line(4, "londiste.add-table", r"\N"),
    line(5, "EXECUTE", "a.sql"),
    line(6, "R", "public.t"),
    line(7, "I", "public.t", txid=5),
)


def test_applied_events_and_scripts_are_forwarded() -> None:
    found = handed(EVENTS, interest())
    assert ids(found) == [1, 5, 6, 7]
    assert len(found) == 4
    assert ids(handed(EVENTS, RoutingTable.main([]))) == [5]


def test_completely_forwarded_block_is_not_encoded_again() -> None:
    whole = block(line(1, "I", "public.t"), line(2, "I", "public.t"))
    assert handed(whole, interest()) is whole


def test_ignored_truncate_is_not_forwarded() -> None:
    chosen = interest(handler="londiste(ignore_truncate=1)")
    if not chosen.routes[T].wants.ignore_truncate:
        route = chosen.routes[T]
        wants = replace(route.wants, ignore_truncate=True)
        chosen = replace(chosen, routes={T: replace(route, wants=wants)}, _seen={})
    assert ids(handed(EVENTS, chosen)) == [1, 5, 7]


def test_events_before_the_copy_are_not_forwarded() -> None:
    copied = ReplicatedTable(T, T, True, "ok", snapshot="10:10:")
    assert ids(handed(EVENTS, RoutingTable.main([copied]))) == [1, 5, 6]


def test_skipped_event_is_not_forwarded() -> None:
    skips = SkippedEvents(frozenset({(1, 0)}), frozenset({T}))
    assert ids(handed(EVENTS, interest().without(skips))) == [5, 6, 7]


def test_single_long_event_follows_the_same_rules() -> None:
    long = "x" * (LARGE + 1)
    kept = block(line(1, "I", "public.t", data=long))
    assert handed(kept, interest()) is kept
    assert len(handed(block(line(1, "I", "public.other", data=long)), interest())) == 0


def node(
    kind: NodeType, combined: NodeType | None = None, target_for: tuple[str, ...] = ()
) -> NodeInfo:
    return NodeInfo(
        queue="q",
        type=kind,
        name="n",
        provider="p",
        provider_location="dbname=p",
        worker="w",
        paused=False,
        uptodate=True,
        last_tick=1,
        local_watermark=1,
        global_watermark=None,
        combined_queue="all" if combined else None,
        combined_type=combined,
        attrs=None,
        target_for=target_for,
    )


@pytest.mark.parametrize(
    ("made", "case"),
    [
        (node(NodeType.ROOT), NodeCase.ROOT),
        (node(NodeType.BRANCH), NodeCase.BRANCH),
        (node(NodeType.LEAF), NodeCase.LEAF),
        (node(NodeType.ROOT, target_for=("one",)), NodeCase.COMBINED_ROOT),
        (node(NodeType.BRANCH, target_for=("one",)), NodeCase.COMBINED_BRANCH),
        (node(NodeType.LEAF, NodeType.ROOT), NodeCase.MERGE_LEAF),
        (node(NodeType.LEAF, NodeType.BRANCH), NodeCase.MERGE_LEAF),
    ],
)
def test_there_are_six_cases_of_nodes(made: NodeInfo, case: NodeCase) -> None:
    assert made.kind is case


def test_a_new_root_needs_the_same_leaves_with_the_same_tables() -> None:
    here = ReplicatedTable(T, T, True, "ok")

    def problems(*new: ReplicatedTable, old: ReplicatedTable = here) -> list[str]:
        return [f.mend for f in part_findings("n2", "one", [old], new, "all")]

    assert problems(here) == []
    assert problems() == problems(replace(here, local=False)) == ["add-table public.t"]
    assert problems(replace(here, dest=TableName("public", "u"))) == ["change-handler public.t"]
    assert problems(replace(here, attrs={"where": "id > 1"})) == ["change-handler public.t"]
    assert problems(replace(here, attrs={"skip_truncate": "1"})) == []
    assert problems(here, old=replace(here, state="in-copy")) == ["wait-sync"]
    assert problems(old=replace(here, local=False)) == []
    # Its leaf would apply events to a table that lacks the older rows of the source.
    assert problems(here, old=replace(here, local=False)) == ["remove-table public.t"]
    (unknown,) = part_findings("n2", "one", [], [here], "all")
    assert (unknown.mend, unknown.queue) == ("remove-table public.t", "one")
    (missing,) = part_findings("n2", "one", [here], None, "all")
    assert missing.mend == "create-leaf NAME --provider DSN --merge all"


def test_options_that_a_standby_cannot_repeat_are_refused() -> None:
    asked = TableOptions(merge="merge_all", skip_truncate=True)
    root, branch = node(NodeType.LEAF, NodeType.ROOT), node(NodeType.LEAF, NodeType.BRANCH)
    assert of_part(root, asked) == asked
    waiting = of_part(branch, asked)
    assert (waiting.merge, waiting.skip_truncate) == ("", False)
    with pytest.raises(BadOption, match="--on-error"):
        of_part(root, TableOptions(choice=HandlerAttrs(on_error="log")))
    with pytest.raises(BadOption, match="--handler"):
        of_part(root, TableOptions(choice=HandlerAttrs(handler="applyfn(func_name=f)")))
