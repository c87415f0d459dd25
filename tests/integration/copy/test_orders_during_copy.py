"""Another mode, a resync or a pause is ordered during a copy, in both copy modes."""

from __future__ import annotations

import pytest

from londiste.daemon.signals import Signals
from londiste.errors import TransientError
from tests.fixtures.copies import A, Nodes, fill, same
from tests.fixtures.nodes import ret
from tests.support.stepped import Stepped
from tests.support.suite.slow import only

WAYS = ("snapshot", "resumable")


class Broken(TransientError):
    """What the test raises in the middle of a copy."""


@pytest.mark.parametrize("first", only(WAYS, "snapshot"))
def test_another_mode_in_the_middle_of_a_copy_begins_it_again_in_that_mode(
    nodes: Nodes, first: str
) -> None:
    fill(nodes, A)
    second = WAYS[1 - WAYS.index(first)]
    once: list[bool] = []

    def between(done: int, left: int) -> None:
        nodes.root.execute(f"update public.a set id = -id where id = {left + 1}")
        if done == 2 and not once:
            once.append(True)
            # What ``resync --copy-mode`` stores.
            nodes.leaf.execute(
                f"select londiste.local_set_table_attrs('q', 'public.a', 'copy_mode={second}')"
            )
            nodes.set_state(A, "in-copy")
            raise Broken("let go")
        if left == 0:
            nodes.root.execute("select pgq.force_tick('q'); select pgq.ticker('q')")

    engine = Stepped(between)
    nodes.engine = engine
    nodes.resumable_from = 0 if first == "resumable" else 1 << 40
    nodes.add(A)
    nodes.start()
    nodes.wait_end()
    assert [("snapshot" if s.snapshot else "resumable") for s in engine.specs] == [first, second]
    assert nodes.leaf.execute("select mode, reason from londiste.copy_choice") == [
        (second, "requested")
    ]
    assert nodes.state(A) == "ok"
    assert same(nodes, A)
    assert nodes.consumers() == []
    assert nodes.leaf.value("select count(*) from londiste.copy_range") == 0


@pytest.mark.parametrize("way", only(WAYS, "resumable"))
def test_a_table_removed_between_chunks_and_added_again_is_copied_from_the_beginning(
    nodes: Nodes, way: str
) -> None:
    fill(nodes, A)

    def stop(done: int, left: int) -> None:
        if done == 2:
            nodes.signals.stop()
            raise Broken("killed by the test")

    engine = Stepped(stop)
    nodes.engine = engine
    nodes.resumable_from = 0 if way == "resumable" else 1 << 40
    nodes.add(A)
    nodes.start()
    assert nodes.thread is not None
    nodes.thread.join()
    nodes.thread = None
    assert ret(nodes.leaf, "londiste.local_remove_table", "q", "public.a")[0] == 200
    nodes.root.execute("delete from public.a where id % 2 = 0; update public.a set v = 'later'")
    assert ret(nodes.leaf, "londiste.local_add_table", "q", "public.a")[0] == 200
    nodes.set_state(A, "in-copy")
    engine.between = lambda done, left: None
    nodes.signals = Signals(stop_timeout=30)
    nodes.start()
    nodes.wait_end()
    assert len(engine.specs) == 2
    assert len(engine.specs[1].chunks) >= len(engine.specs[0].chunks)
    assert engine.specs[1].attempt > engine.specs[0].attempt
    assert nodes.state(A) == "ok"
    assert same(nodes, A)
    assert nodes.leaf.value("select count(*) from pg_constraint where conname = 'a_pkey'") == 1
