"""A table recreated on the source without capture is reported and does not become ok."""

from __future__ import annotations

import pytest

from tests.fixtures.copies import A, B, Nodes, fill, same
from tests.support.stepped import Stepped
from tests.support.waiting import wait_for

AGAIN = (
    "drop table public.a; create table public.a (id int8 primary key, v text);"
    " insert into public.a select i, 'again' from generate_series(1, 700) i"
)
CAPTURE = "select londiste.create_capture('q', 'public.a')"


def waits(nodes: Nodes, what: str) -> str:
    """The stored reason, once it names this."""

    def reason() -> str:
        found = nodes.error(A)
        return found if what in found else ""

    return wait_for(reason, what=f"the reason: {what}")


def ends(nodes: Nodes) -> None:
    nodes.root.execute(CAPTURE)
    nodes.wait_end()
    assert nodes.failure is None
    assert nodes.state(A) == "ok"
    assert same(nodes, A)


def test_a_table_made_again_before_its_copy_waits_until_it_is_captured(nodes: Nodes) -> None:
    fill(nodes, A)
    nodes.add(A, B)
    nodes.root.execute(AGAIN)
    nodes.start()
    reason = waits(nodes, "has lost its capture trigger")
    assert "londiste triggers --restore public.a" in reason
    wait_for(lambda: nodes.state(B) == "ok", what="the other table")
    assert nodes.state(A) == "in-copy"
    assert nodes.leaf.value("select count(*) from public.a") == 0
    ends(nodes)


@pytest.mark.parametrize(
    ("way", "at"),
    [
        ("snapshot", 2),
        ("resumable", 0),
        pytest.param("snapshot", 0, marks=pytest.mark.slow),
        pytest.param("resumable", 2, marks=pytest.mark.slow),
    ],
)
def test_a_table_made_again_during_its_copy_is_copied_again_when_it_is_captured(
    nodes: Nodes, way: str, at: int
) -> None:
    fill(nodes, A)
    once: list[bool] = []

    def between(done: int, left: int) -> None:
        # After the second chunk, or after the last.
        if (done == at if at else left == 0) and not once:
            once.append(True)
            nodes.root.execute(AGAIN)
        if left == 0:
            nodes.root.execute("select pgq.force_tick('q'); select pgq.ticker('q')")

    nodes.engine = Stepped(between)
    nodes.resumable_from = 0 if way == "resumable" else 1 << 40
    nodes.add(A)
    nodes.start()
    waits(nodes, "has lost its capture trigger")
    assert nodes.state(A) == "in-copy"
    ends(nodes)


def test_a_capture_that_is_disabled_keeps_the_copy_waiting(nodes: Nodes) -> None:
    fill(nodes, A)
    nodes.add(A)
    nodes.root.execute("alter table public.a disable trigger user")
    nodes.start()
    waits(nodes, "has its capture trigger disabled")
    nodes.root.execute("alter table public.a enable trigger user")
    nodes.wait_end()
    assert nodes.state(A) == "ok"
    assert same(nodes, A)
