"""Rows that are updated during a copy exist once after it, in both copy modes.

A writer that is drawn at random acts between the chunks of a real copy, in transactions that are
open across them: changed keys, deleted and inserted again, statements over many rows, TRUNCATE.
"""

from __future__ import annotations

import random

import pytest

from londiste.db.connection import Connection
from tests.fixtures.copies import A, Nodes, same
from tests.support.stepped import Stepped

ROWS = 2400


class Mover:
    """Changes the table, in transactions of its own and in one that stays open for a while."""

    def __init__(self, nodes: Nodes, seed: int) -> None:
        self.nodes = nodes
        self.rand = random.Random(seed)
        self.open: Connection | None = None
        self.locked: tuple[int, int] = (0, 0)
        self.number = 0

    def between(self, done: int, left: int) -> None:
        """What happens between two chunks."""
        for _ in range(self.rand.randrange(1, 4)):
            self._change()
        # There is no worker in this test: what comes after the hand-over stays in the queue.
        if left == 0 or (self.open is not None and self.rand.random() < 0.4):
            self.end()
        elif self.open is None:
            self._begin()
        if left == 0 or self.rand.random() < 0.3:
            self.nodes.root.execute("select pgq.force_tick('q')")
            self.nodes.root.execute("select pgq.ticker('q')")

    def _change(self) -> None:
        self.number += 1
        number, rand = self.number, self.rand
        if self.open is None and rand.random() < 0.06:
            self.nodes.root.execute(
                "truncate public.a; insert into public.a"
                f" select i, 'after {number}' from generate_series(-100, {ROWS}, 3) i"
            )
            return
        start = rand.randrange(-200, ROWS + 200)
        if self.locked[0] - 60 <= start <= self.locked[1]:
            return
        rows = f"where id between {start} and {start + rand.randrange(60)}"
        away, back = f"id + {number * 100_000}", f"id - {number * 100_000}"
        if rand.random() < 0.5:
            away, back = back, away
        self.nodes.root.execute(
            rand.choice(
                [
                    f"update public.a set v = 'set {number}' {rows}",
                    f"update public.a set id = {away}, v = v || '>' {rows}",
                    f"delete from public.a {rows}",
                    f"with gone as (delete from public.a {rows} returning id)"
                    f" select count(*) from gone;"
                    f" insert into public.a select i, 'again {number}'"
                    f" from generate_series({start}, {start + 20}) i on conflict do nothing",
                    # Away, and back again in the same transaction.
                    f"update public.a set id = {away}, v = 'there {number}' {rows};"
                    f" update public.a set id = {back}, v = 'and back' where v = 'there {number}'",
                ]
            )
        )

    def _begin(self) -> None:
        start = self.rand.randrange(0, ROWS - 100)
        self.locked = (start, start + 100)
        self.open = self.nodes.root.connect()
        self.open.autocommit = False
        self.open.execute(
            f"update public.a set id = id + 9000000, v = 'open' where id between {start}"
            f" and {start + 50};"
            f" delete from public.a where id between {start + 51} and {start + 100}"
        )

    def end(self) -> None:
        """Commits what is open, or rolls it back."""
        if self.open is not None:
            if self.rand.random() < 0.7:
                self.open.commit()
            else:
                self.open.rollback()
            self.open.close()
            self.open = None
            self.locked = (0, 0)


@pytest.mark.parametrize("way", ["resumable", "snapshot"])
@pytest.mark.parametrize(
    "seed", [1, *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12)]]
)
def test_each_row_is_there_once_however_the_rows_move(nodes: Nodes, seed: int, way: str) -> None:
    nodes.root.execute(
        f"insert into public.a select i, repeat('x', 100) from generate_series(1, {ROWS}) i"
    )
    mover = Mover(nodes, seed)
    engine = Stepped(mover.between)
    nodes.engine = engine
    nodes.up_to_the_newest = True
    nodes.resumable_from = 0 if way == "resumable" else 1 << 40
    nodes.add(A)
    nodes.start()
    try:
        nodes.wait_end()
    finally:
        mover.end()
    assert nodes.failure is None
    assert nodes.state(A) == "ok"
    assert same(nodes, A)
    assert (engine.specs[-1].snapshot == "") == (way == "resumable")
