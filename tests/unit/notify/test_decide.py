"""Findings are reported once when they begin, last and end, whatever a restart or flapping does."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from londiste.errors import NodeUnreachable
from londiste.monitor.lag import Behind
from londiste.monitor.node_errors import Halted
from londiste.monitor.status import NodeStatus, Status, TableCounts
from londiste.monitor.verdict import Allowed
from londiste.notify.decide import BEGINS, ENDS, LASTS, Message, Rules, State, step
from londiste.notify.findings import Look, Observed, of_failure, of_status

RULES = Rules(after=30, remind=1000, longest=60)


def one(kind: str = "worker", node: str = "n", severity: int = 2) -> Observed:
    return Observed(f"q/{node}/{kind}", kind, severity, "q", node, "what", "why", "do")


def told(
    looks: list[tuple[float, Look]], rules: Rules = RULES, state: State | None = None
) -> list[tuple[float, str, str]]:
    """Moment, event and kind of each message."""
    state = state or State()
    found: list[tuple[float, str, str]] = []
    for now, look in looks:
        state, messages = step(state, look, now, rules)
        found += [(now, message.event, message.finding.kind) for message in messages]
    return found


THERE, NONE = Look((one(),)), Look()


def test_it_begins_after_its_time_lasts_and_ends_after_its_time() -> None:
    looks = [(t, THERE) for t in range(0, 1100, 10)] + [(t, NONE) for t in range(1100, 1200, 10)]
    assert told(looks) == [
        (30, BEGINS, "worker"),
        (1030, LASTS, "worker"),
        (1130, ENDS, "worker"),
    ]


def test_a_short_one_is_never_reported_and_no_reminder_without_a_period() -> None:
    assert told([(0, THERE), (20, THERE), *((t, NONE) for t in range(30, 100, 10))]) == []
    looks = [(t, THERE) for t in range(0, 90_000, 30)]
    assert told(looks, replace(RULES, remind=0)) == [(30, BEGINS, "worker")]


def test_one_that_flaps_is_reported_once() -> None:
    looks = [(t, THERE if t // 20 % 2 else NONE) for t in range(0, 900, 10)]
    assert [event for _, event, _ in told(looks)] == [BEGINS]


def test_a_worse_one_is_reported_at_once() -> None:
    looks = [(t, Look((one(severity=1),))) for t in range(0, 50, 10)]
    looks += [(t, Look((one(severity=3),))) for t in range(50, 80, 10)]
    looks += [(t, THERE) for t in range(80, 110, 10)]
    assert told(looks) == [(30, BEGINS, "worker"), (50, LASTS, "worker"), (80, LASTS, "worker")]
    assert told([*looks, *((t, Look((one(severity=3),))) for t in range(110, 150, 10))]) == told(
        looks
    )


def test_what_cannot_be_seen_neither_ends_nor_lasts() -> None:
    begun = [(t, THERE) for t in range(0, 40, 10)]
    for hidden in (
        Look((one("unreachable"),), silent=frozenset({"n"})),
        Look((one("unreachable", ""),), blind=True),
    ):
        found = told([*begun, *((t, hidden) for t in range(40, 400, 10))])
        assert found == [(30, BEGINS, "worker"), (70, BEGINS, "unreachable")]
    lag = Look((one("lag"),))
    found = told(
        [
            *((t, lag) for t in range(0, 40, 10)),
            *((t, Look(rootless=True)) for t in range(40, 400, 10)),
        ]
    )
    assert found == [(30, BEGINS, "lag")]
    # The end of an unreachable node is seen, also while it is silent no longer.
    silent = Look((one("unreachable"),), silent=frozenset({"n"}))
    found = told(
        [*((t, silent) for t in range(0, 40, 10)), *((t, NONE) for t in range(40, 90, 10))]
    )
    assert found == [(30, BEGINS, "unreachable"), (70, ENDS, "unreachable")]


def test_time_in_which_the_notifier_did_not_run_does_not_count() -> None:
    assert told([(0, THERE), (100_000, THERE)], replace(RULES, longest=20)) == []
    assert told([(0, THERE), (10, THERE), (5, THERE), (20, THERE)]) == []


@given(
    st.lists(st.tuples(st.floats(0.1, 100), st.booleans(), st.booleans()), max_size=60),
    st.floats(0, 60),
)
def test_begin_and_end_alternate_and_their_ids_differ(
    looks: list[tuple[float, bool, bool]], after: float
) -> None:
    state, now = State(), 0.0
    messages: list[Message] = []
    for passed, there, silent in looks:
        now += passed
        look = Look((one(),) if there else (), silent=frozenset({"n"} if silent else ()))
        again, new = step(state, look, now, replace(RULES, after=after))
        # The same decision after a crash has the same ids.
        assert [m.id for m in step(state, look, now, replace(RULES, after=after))[1]] == [
            m.id for m in new
        ]
        state = again
        messages += new
    events = [m.event for m in messages if m.event != LASTS]
    assert events == [e for e, _ in zip(itertools.cycle([BEGINS, ENDS]), events, strict=False)]
    assert len({m.id for m in messages}) == len(messages)


COUNTS = TableCounts(1, 0, 0)


def cascade(*nodes: NodeStatus) -> Status:
    root = NodeStatus("root", "root", tables=COUNTS, tick=5, behind=Behind(0, 0, 0))
    return Status("q", "root", (root, *(replace(node, tables=COUNTS) for node in nodes)))


def test_the_key_of_a_finding_is_the_same_while_its_numbers_change() -> None:
    def look(seconds: float) -> Look:
        behind = Behind(ticks=3, events=int(seconds), seconds=seconds)
        return of_status(cascade(NodeStatus("n", "leaf", tick=1, behind=behind)), Allowed(), 1)

    (first,), (second,) = look(100).found, look(5000).found
    assert first.key == second.key and first.what != second.what
    assert (first.severity, second.severity) == (1, 2)
    assert of_status(cascade(), Allowed(), 1) == Look()


def test_another_failed_event_is_another_finding_and_no_value_of_a_row_is_shown() -> None:
    def found(event: str) -> Look:
        halted = Halted(event, "w", "t", "insert", ("id",))
        node = NodeStatus("n", "leaf", halted=(halted,), errors=(("x", "no; detail: (id)=(5)"),))
        return of_status(cascade(node), Allowed(), 1)

    first, second = found("7"), found("8")
    assert {o.kind for o in first.found} == {"halted", "error"}
    assert len({o.key for o in (*first.found, *second.found)}) == 3
    assert all("(5)" not in o.what + o.why for o in first.found)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("capture", "table {} has lost its capture trigger: its changes are not replicated: x"),
        ("capture", "table {} was renamed to public.z, events carry the old name: x"),
        ("branch-capture", "table {} has lost its capture trigger: its capture is lost: x"),
        ("second-queue", "table {} gets rows by queue p, which are not captured: x"),
        ("native-subscription", "table {} gets rows by subscription s, which are not captured: x"),
        ("missing", "table {} does not exist: x"),
        ("table-replaced", "table {} is not the table that was copied: rows are missing: x"),
        ("partition", "table {}: partition public.p was attached with rows; hint: y: z"),
        ("partition", "table public.p: partition {} was detached with rows; hint: y: z"),
        ("partition-detached", "table {} has lost its partition public.p: its rows: x"),
        ("partition-detached", "table public.p has lost its partition {}: its rows: x"),
        ("subscribers", "table {} was changed, the nodes below have not copied it again: x"),
        ("subscription", "node {} is registered as a subscriber here but reads from x: y"),
        ("rewritten", "table {} was changed on this node without events, compare it: x"),
        ("follow", "{} cannot be added: it has no key"),
    ],
)
def test_the_same_error_of_another_table_is_another_finding(source: str, text: str) -> None:
    a, b = (source, text.format("public.a")), (source, text.format("public.b"))

    def look(*errors: tuple[str, str]) -> Look:
        return of_status(cascade(NodeStatus("n", "leaf", errors=errors)), Allowed(), 1)

    state, events = State(), []
    looks = [*[look(a)] * 5, *[look(a, b)] * 5, *[look(b)] * 5, *[look()] * 5]
    for now, seen in enumerate(looks):
        state, messages = step(state, seen, 10 * now, RULES)
        events += [(one.event, "public.a" in one.finding.key) for one in messages]
    assert events == [(BEGINS, True), (BEGINS, False), (ENDS, True), (ENDS, False)]


def test_an_error_keeps_its_key_when_only_its_reason_changes() -> None:
    found = [
        of_status(cascade(NodeStatus("n", "leaf", errors=(("follow", text),))), Allowed(), 1)
        for text in ("public.a cannot be added: waits for 7", "public.a cannot be added: for 8")
    ]
    assert len({one.key for look in found for one in look.found}) == 1


def test_a_chosen_node_that_the_cascade_does_not_have_is_a_finding() -> None:
    look = of_status(cascade(NodeStatus("n", "leaf")), Allowed(), 1, only=["gone"])
    assert [(o.kind, o.node, o.severity) for o in look.found] == [("unknown-node", "gone", 2)]
    assert look.found[0].what == "is not in the cascade of queue q"
    assert of_status(cascade(NodeStatus("n", "leaf")), Allowed(), 1, only=["n"]).found == ()


def test_a_node_that_is_silent_and_a_cascade_without_answer() -> None:
    gone = NodeStatus("n", "dead", unreachable="refused")
    look = of_status(cascade(gone), Allowed(), 1)
    assert [o.kind for o in look.found] == ["unreachable"] and look.silent == {"n"}
    assert of_status(cascade(gone), Allowed(), 1, only=["root"]).found == ()
    rootless = of_status(Status("q", "n", (gone,)), Allowed(), 1)
    assert rootless.rootless and {o.kind for o in rootless.found} == {"unreachable", "no-root"}
    blind = of_failure(NodeUnreachable("refused"), "q")
    assert blind.blind and blind.found[0].severity == 2
