"""Net changes from encoded events have the effect of the single changes."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from londiste.applier.plan import RowSet, Verb
from londiste.changes.keyed import columns_digest
from londiste.changes.types import RowChange, Truncate
from londiste.db.names import TableName
from londiste.pgq.blocks import EventBlock
from londiste.replication.apply.accumulator import Accumulator, BatchPart
from londiste.replication.apply.net_changes.encoded import NetFold
from londiste.replication.apply.routing import RoutingTable
from londiste.replication.model import ReplicatedTable

TABLE = TableName("public", "t")
Model = dict[str, str]


class Said(NamedTuple):
    """One event: I, U, D as usual, S the row is so now, N there is none, T the table is emptied."""

    op: str
    rows: tuple[tuple[str, str], ...] = ()
    pack: bool = False
    txid: int = 20


def interest(snapshot: str | None = None) -> RoutingTable:
    return RoutingTable.main([ReplicatedTable(TABLE, TABLE, True, "ok", snapshot)])


def copied(text: str | None) -> str:
    """A field as COPY writes it."""
    if text is None:
        return r"\N"
    return text.replace("\\", r"\\").replace("\n", r"\n").replace("\t", r"\t")


def block(said: Sequence[Said], first: int = 1, table: str = "public.t") -> EventBlock:
    text = ""
    for number, event in enumerate(said, first):
        kind = {"op": {"I": "INSERT", "S": "INSERT", "U": "UPDATE", "T": "TRUNCATE"}.get(event.op)}
        whole: dict[str, object] = {"op": kind["op"] or "DELETE", "table": table.split(".")}
        whole["pkey"] = ["id"]
        data, keys = "{}", None
        if event.op != "T":
            columns = ["id"] if event.op in "DN" else ["id", "v"]
            whole["row"] = columns_digest(columns)
            lines = [
                json.dumps({"id": key, "v": value} if "v" in columns else {"id": key})
                for key, value in event.rows
            ]
            data, keys = "\n".join(lines), "\n".join(key for key, _ in event.rows)
        if event.op in "SN":
            whole["state"] = True
        if event.pack:
            whole["pack"] = True
        fields = [
            str(number),
            "2024-01-01 00:00:00+00",
            str(event.txid),
            None,
            json.dumps(whole, separators=(",", ":")),
            data,
            table,
            None,
            keys,
            None,
        ]
        text += "\t".join(map(copied, fields)) + "\n"
    return EventBlock(text.encode(), len(said))


def taken(said: Sequence[Said], snapshot: str | None = None) -> BatchPart:
    accumulator = Accumulator(interest(snapshot))
    accumulator.add(block(said))
    return accumulator.take()


def folded(said: Sequence[Said]) -> NetFold:
    return taken(said).folds[TABLE]


class Impossible(Exception):
    """Such events cannot follow each other."""


def one_by_one(start: Model, said: Sequence[Said]) -> Model:
    rows = dict(start)
    for event in said:
        if event.op == "T":
            rows.clear()
        for key, value in event.rows:
            if event.op in "IUD" and (event.op == "I") == (key in rows):
                raise Impossible
            if event.op in "DN":
                rows.pop(key, None)
            else:
                rows[key] = value
    return rows


def images(group: RowSet) -> Model:
    found = [json.loads(line) for line in (*group.lines, *"\n".join(group.packs).splitlines())]
    assert len(found) == group.count
    keys = [image["id"] for image in found]
    assert len(set(keys)) == len(keys), "a key is twice in one set"
    return {image["id"]: image.get("v", "") for image in found}


def as_sets(start: Model, fold: NetFold) -> Model:
    rows = {} if fold.truncated else dict(start)
    for group in fold.result():
        for key, value in images(group).items():
            if group.verb in {Verb.DELETE, Verb.UPDATE, Verb.INSERT}:
                assert (group.verb is Verb.INSERT) != (key in rows), (group.verb, key)
            if group.verb in {Verb.DELETE, Verb.UNSET}:
                rows.pop(key, None)
            else:
                rows[key] = value
    return rows


def scenario(pick: random.Random) -> tuple[Model, list[Said]]:
    """A table and what happens to it; mostly what can happen, sometimes what cannot."""
    keys = [str(n) for n in range(1, pick.choice([3, 6, 12]))]
    start = {key: "old" for key in keys if pick.random() < 0.5}
    there, said = set(start), []
    for _ in range(pick.randint(0, 20)):
        op = pick.choice("IIIUUUUDDDSNT" if pick.random() < 0.3 else "IUD")
        fit = [k for k in keys if op in "SN" or (op == "I") != (k in there)]
        if pick.random() < 0.01:
            fit = keys
        if op == "T":
            said.append(Said("T"))
            there.clear()
            continue
        if not fit:
            continue
        pack = pick.random() < 0.4
        some = pick.sample(fit, pick.randint(1, len(fit))) if pack else [pick.choice(fit)]
        if pack and pick.random() < 0.05:
            some += some[:1]
        said.append(Said(op, tuple((k, f'v{len(said)}\\\t\n"{k}') for k in some), pack))
        there = there - set(some) if op in "DN" else there | set(some)
    return start, said


def check(seed: int) -> str:
    start, said = scenario(random.Random(seed))
    try:
        expected: Model | None = one_by_one(start, said)
    except Impossible:
        expected = None
    fold = folded(said) if said else NetFold()
    if fold.reason:
        assert expected is None, f"seed {seed}: {fold.reason}"
        return "refused"
    if expected is None:
        # Seen by the fold, or by the counts of the target: or the key comes and goes unlooked at.
        return "impossible"
    assert as_sets(start, fold) == expected, f"seed {seed}"
    return "same"


@pytest.mark.parametrize(
    "cases", [1_500, pytest.param(100_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_folded_events_leave_what_the_events_leave(cases: int) -> None:
    found = [check(seed) for seed in range(cases)]
    assert found.count("same") > cases * 0.8
    assert found.count("refused") > 0


@settings(max_examples=300)
@given(st.binary(max_size=60).map(lambda b: b.decode("latin-1").replace("\0", "")))
def test_any_image_and_key_come_through_unchanged(text: str) -> None:
    fold = folded([Said("I", ((text.replace("\n", ""), text),))])
    (group,) = fold.result()
    assert [json.loads(line) for line in group.lines] == [{"id": text.replace("\n", ""), "v": text}]


def test_a_pack_that_meets_nothing_is_passed_on_whole() -> None:
    said = [Said("U", (("1", "a"), ("2", "b")), True), Said("I", (("3", "c"),))]
    update, insert = folded(said).result()
    assert (update.verb, len(update.packs), update.lines, update.count) == (Verb.UPDATE, 1, [], 2)
    assert (insert.verb, insert.packs, insert.count) == (Verb.INSERT, [], 1)


def test_a_pack_whose_key_comes_again_is_taken_apart() -> None:
    said = [Said("I", (("1", "a"), ("2", "b")), True), Said("U", (("1", "z"),))]
    (insert,) = folded(said).result()
    assert insert.packs == []
    assert images(insert) == {"1": "z", "2": "b"}


def test_what_the_copy_has_brought_is_left_out() -> None:
    said = [
        Said("I", (("1", "a"),), txid=9),
        Said("I", (("2", "b"),), txid=20),
        Said("U", (("3", "c"), ("4", "d")), True, txid=9),
    ]
    part = taken(said, "10:20:")
    (insert,) = part.folds[TABLE].result()
    assert images(insert) == {"2": "b"}
    assert (part.events, part.applied) == (3, 1)


def test_events_of_other_tables_are_left_out() -> None:
    accumulator = Accumulator(interest())
    accumulator.add(block([Said("I", (("1", "a"),))], table="public.other"))
    part = accumulator.take()
    assert (part.events, part.applied, part.folds) == (1, 0, {})


def test_what_was_taken_is_not_there_any_more() -> None:
    accumulator = Accumulator(interest())
    accumulator.add(block([Said("I", (("1", "a"),))]))
    accumulator.take()
    accumulator.add(block([Said("U", (("1", "b"),))], first=2))
    (group,) = accumulator.take().folds[TABLE].result()
    assert group.verb is Verb.UPDATE


def test_events_that_are_not_folded_are_decoded_from_the_blocks_in_their_order() -> None:
    said = [Said("I", (("1", "a"), ("2", "b")), True), Said("T"), Said("D", (("2", ""),))]
    part = taken(said)
    assert "was emptied" in part.folds[TABLE].reason
    found = [change for _, change in part.changes({TABLE})]
    assert [c.image["id"] if isinstance(c, RowChange) else None for c in found] == [
        "1",
        "2",
        None,
        "2",
    ]
    assert isinstance(found[2], Truncate)


def test_an_image_that_is_not_what_its_type_says_is_not_trusted() -> None:
    wrong = block([Said("I", (("1", "a"),))])._data.replace(b'"v"', b'"w"')
    accumulator = Accumulator(interest())
    accumulator.add(EventBlock(wrong, 1))
    assert "columns" in accumulator.take().folds[TABLE].reason
