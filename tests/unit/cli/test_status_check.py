"""Verdict about a cascade: limits, severities, and the line for a monitor."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import click
import pytest

from londiste.cascade.daemons import Life, Running, judge, running
from londiste.cli.nodes.status import EXIT_UNKNOWN, Span
from londiste.db.connection import given_up_after
from londiste.errors import AccessDenied, InstallError, NodeUnreachable
from londiste.monitor.alarms import CRITICAL_AGE, age_findings, drift_findings
from londiste.monitor.lag import Behind, Latency
from londiste.monitor.node_errors import Halted, refused
from londiste.monitor.nodes import rules
from londiste.monitor.queues.model import Severity
from londiste.monitor.queues.rules import worst
from londiste.monitor.retention import Retention
from londiste.monitor.status import NodeStatus, Status, TableCounts
from londiste.monitor.verdict import Allowed, findings, one_line
from londiste.pgq.liveness import Daemon, period

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SEEN = Daemon(
    *("worker", "q", "w", "", "role", "host", 7, "4.1.0", NOW, NOW, 10.0),
    *(1.0, 2.0, 0.1, 0.2, None, True, 1.0, False),
)
COUNTS = TableCounts(1, 0, 0)
ROOT = NodeStatus("root", "root", tables=COUNTS, tick=9, behind=Behind(0, 0, 0.0))
LEAF = replace(ROOT, name="leaf", type="leaf", provider="root")


def about(*nodes: NodeStatus, allowed: Allowed | None = None) -> list[tuple[str, Severity]]:
    return [(one.kind, one.severity) for one in findings(Status("q", "root", nodes), allowed)]


@pytest.mark.parametrize(
    ("changes", "life"),
    [
        ({}, Life.ALIVE),
        ({"seen_age": 500.0}, Life.ALIVE),
        ({"seen_age": 29.0, "session_age": None}, Life.ALIVE),
        ({"seen_age": 31.0, "session_age": 31.0}, Life.HUNG),
        ({"seen_age": 31.0, "session_age": None}, Life.HUNG),
        ({"seen_age": 31.0, "session_age": 31.0, "is_executing": True}, Life.BUSY),
        ({"has_session": False, "seen_age": 4.0}, Life.ALIVE),
        ({"has_session": False, "seen_age": 6.0}, Life.GONE),
        ({"has_session": False, "seen_age": 6.0, "is_executing": True}, Life.GONE),
        # On a standby sessions are not known.
        ({"has_session": None, "session_age": None, "seen_age": 31.0}, Life.HUNG),
        ({"stopped": NOW}, Life.STOPPED),
    ],
)
def test_a_daemon_is_judged_by_its_report_and_its_session(
    changes: dict[str, object], life: Life
) -> None:
    assert judge(replace(SEEN, **changes)) is life  # type: ignore[arg-type]


def test_a_daemon_with_patience_is_not_hung() -> None:
    silent = replace(SEEN, seen_age=600.0, session_age=600.0)
    assert judge(silent, patience=900.0) is Life.ALIVE
    assert judge(replace(silent, has_session=False), patience=900.0) is Life.GONE


def test_a_worker_that_waits_for_a_silent_provider_is_not_hung() -> None:
    """It may wait for an answer, ask the server in other sessions, and report then."""
    seconds = given_up_after(30.0)
    assert seconds == 50.0
    waits = replace(SEEN, period=period(seconds), seen_age=59.0, session_age=59.0)
    assert judge(waits) is Life.ALIVE
    assert judge(replace(waits, seen_age=61.0, session_age=61.0)) is Life.HUNG
    assert period() == SEEN.period


def test_of_several_daemons_the_one_that_runs_counts() -> None:
    gone = replace(SEEN, role="other", host="old", has_session=False, seen_age=99.0)
    assert running([gone, SEEN], "worker").host == "host"
    assert running([gone], "worker").life is Life.GONE
    assert running([SEEN], "worker", name="another").life is Life.NEVER
    assert running(None, "worker").life is Life.UNKNOWN


@pytest.mark.parametrize(
    ("behind", "expected"),
    [
        (Behind(0, 0, 0.0), []),
        (Behind(90, 5000, 60.0), []),
        (Behind(90, 5000, 61.0), [("lag", Severity.WARNING)]),
        (Behind(90, 5000, 601.0), [("lag", Severity.CRITICAL)]),
    ],
)
def test_lag_has_a_limit_and_ten_times_that(
    behind: Behind, expected: list[tuple[str, Severity]]
) -> None:
    assert about(ROOT, replace(LEAF, behind=behind)) == expected


def test_a_lag_that_a_clock_hides_is_unknown_and_never_ok() -> None:
    node = replace(LEAF, behind=Behind(12, 1, None))
    assert str(node.behind) == "behind by 12 ticks, 1 event, time unknown"
    assert about(ROOT, node) == [("unknown", Severity.UNKNOWN)]
    assert ("lag", Severity.WARNING) in about(
        ROOT, replace(LEAF, behind=Behind(12, 9, None)), allowed=Allowed(backlog=5)
    )
    line = one_line(Status("q", "root", (ROOT, node)), [], Allowed())
    assert "lag_leaf=U;60;600;0 backlog_leaf=1;;;0" in line


def test_copies_that_are_paused_are_a_warning_while_tables_wait() -> None:
    waits = replace(LEAF, tables=TableCounts(1, 2, 0))
    assert about(ROOT, waits) == []
    assert about(ROOT, replace(LEAF, copies_paused=True)) == []
    assert about(ROOT, replace(waits, copies_paused=True)) == [("copies-paused", Severity.WARNING)]


@pytest.mark.parametrize(
    ("local", "in_file", "begin"),
    [
        ("leaf", (), "londiste "),
        ("root", (), "with the settings of leaf: londiste "),
        ("root", ("root", "leaf"), "londiste --node leaf "),
        ("leaf", ("root", "leaf"), "londiste --node leaf "),
    ],
)
def test_the_remedy_of_a_finding_names_its_node(
    local: str, in_file: tuple[str, ...], begin: str
) -> None:
    halted = Halted("1:2", "w", "public.t", "insert", ("id",))
    node = replace(
        LEAF,
        halted=(halted,),
        errors=(("follow", "public.a cannot be added: no"),),
        alarms=tuple(drift_findings("q", {"public.t": 2})),
        tables=TableCounts(1, 1, 0),
        copies_paused=True,
    )
    found = findings(Status("q", local, (ROOT, node), in_file=in_file))
    assert {one.kind: one.do for one in found} == {
        "halted": f"{begin}events show",
        "follow": f"{begin}check",
        "drift": f"{begin}repair public.t",
        "copies-paused": f"{begin}copy resume",
    }


def test_a_backlog_has_a_limit() -> None:
    node = replace(LEAF, behind=Behind(1, 1001, 1.0))
    assert about(ROOT, node, allowed=Allowed(backlog=1000)) == [("lag", Severity.WARNING)]
    assert about(ROOT, node, allowed=Allowed(backlog=100)) == [("lag", Severity.CRITICAL)]


def test_a_position_that_the_root_has_no_longer_is_critical() -> None:
    assert about(ROOT, replace(LEAF, behind=None)) == [("lag", Severity.CRITICAL)]


def test_a_node_that_does_not_answer_is_critical_unless_it_is_marked_as_failed() -> None:
    silent = NodeStatus("leaf", "dead", unreachable="no answer", uptodate=False)
    assert about(ROOT, silent) == [("unreachable", Severity.CRITICAL)]
    assert about(ROOT, replace(silent, tagged_dead=True)) == [("unreachable", Severity.WARNING)]
    assert about(silent) == [("unreachable", Severity.CRITICAL), ("no-root", Severity.CRITICAL)]


def test_nobody_takes_over_from_a_node_that_answers_with_an_error() -> None:
    for error, kind, severity in (
        (denied("42501"), "unknown", Severity.UNKNOWN),
        (denied("28P01"), "unreachable", Severity.CRITICAL),
        (InstallError("no SQL", hint="londiste install"), "unknown", Severity.UNKNOWN),
    ):
        alarms = refused(error, "q", "leaf")
        node = NodeStatus("leaf", "unknown", unreachable=error.message, alarms=alarms)
        assert about(ROOT, node) == [(kind, severity)]
        alone = findings(Status("q", "leaf", (node,)))
        assert sorted(one.kind for one in alone) == sorted([kind, "no-root"])
        assert {one.do for one in alone} == {error.hint}
    assert refused(NodeUnreachable("no answer"), "q", "leaf") == ()


def denied(sqlstate: str) -> AccessDenied:
    error = AccessDenied("denied", hint="grant it")
    error.sqlstate = sqlstate
    return error


def test_a_daemon_that_does_not_run_is_a_finding() -> None:
    def with_daemon(node: NodeStatus, kind: str, life: Life) -> NodeStatus:
        return replace(node, daemons=(Running(kind, "x", life),))

    assert about(ROOT, with_daemon(LEAF, "worker", Life.GONE)) == [("worker", Severity.CRITICAL)]
    assert about(ROOT, with_daemon(LEAF, "worker", Life.NEVER)) == [("worker", Severity.WARNING)]
    assert about(with_daemon(ROOT, "worker", Life.GONE)) == [("worker", Severity.WARNING)]
    assert about(with_daemon(ROOT, "ticker", Life.HUNG)) == [("ticker", Severity.CRITICAL)]
    assert about(ROOT, with_daemon(LEAF, "worker", Life.BUSY)) == []


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (replace(LEAF, daemons=(Running("worker", "w", Life.UNKNOWN),)), "whether its worker runs"),
        (replace(LEAF, tables=None), "whether its tables are in sync"),
        (replace(LEAF, other_sql=True), "what its captures, copies"),
    ],
)
def test_what_is_not_known_to_be_fine_is_unknown_with_the_command_to_look(
    node: NodeStatus, words: str
) -> None:
    status = Status("q", "root", (ROOT, node))
    found = findings(status)
    assert [(one.kind, one.severity) for one in found] == [("unknown", Severity.UNKNOWN)]
    assert int(worst(found)) == EXIT_UNKNOWN
    line = one_line(status, found, Allowed())
    assert line.startswith(f"LONDISTE UNKNOWN - node leaf: unknown: {words}")
    assert "; look: check it with that version" in line
    # What is known to be wrong is worse, and a warning is not.
    critical = findings(Status("q", "root", (ROOT, replace(node, errors=(("w", "broken"),)))))
    assert [one.severity for one in critical] == [Severity.CRITICAL, Severity.UNKNOWN]
    assert worst(critical) is Severity.CRITICAL
    warned = findings(Status("q", "root", (ROOT, replace(node, paused=True))))
    assert worst(warned) is Severity.UNKNOWN and warned[1].severity is Severity.WARNING


def test_a_lag_that_the_root_does_not_tell_is_unknown() -> None:
    nodes = replace(ROOT, behind=None), replace(LEAF, behind=None)
    assert about(*nodes) == [("unknown", Severity.UNKNOWN)] * 2
    assert about(replace(ROOT, type="branch"), nodes[1])[0] == ("no-root", Severity.CRITICAL)


def test_held_events_are_a_warning_after_fifteen_minutes() -> None:
    held = Retention(3, 901.0, ".global_watermark", "the slowest node")
    assert about(replace(ROOT, held=held)) == [("held", Severity.WARNING)]
    assert about(replace(ROOT, held=replace(held, age=899.0))) == []


def test_event_tables_must_be_frozen() -> None:
    assert age_findings("q", 400_000_000, 200_000_000) == []
    assert age_findings("q", 400_000_001, 200_000_000)[0].severity is Severity.WARNING
    assert age_findings("q", CRITICAL_AGE, 2_000_000_000)[0].severity is Severity.CRITICAL


def test_drift_names_tables_that_differ() -> None:
    assert [one.what for one in drift_findings("q", {"a": 0, "b": 3})] == [
        "table b: 3 rows differ from the root's"
    ]


def test_the_line_is_safe_for_a_monitor() -> None:
    node = replace(LEAF, name="le'af|=", errors=(("w", "one | two\nthree"),))
    status = Status("q", "root", (ROOT, node))
    line = one_line(status, findings(status), Allowed(backlog=5))
    head, _, data = line.partition(" | ")
    assert head == "LONDISTE CRITICAL - node le'af/=: w: one / two three"
    assert data == (
        "nodes=2 unreachable=0 lag_root=0.0s;60;600;0 backlog_root=0;5;50;0"
        " 'lag_le''af__'=0.0s;60;600;0 'backlog_le''af__'=0;5;50;0"
    )


def test_latency_names_its_largest_part() -> None:
    assert (
        str(Latency(0.1, 0.02, 3.0))
        == "tick 0.1s + fetch 0.02s + apply 3s; most: applying the batch"
    )
    assert "ticker_max_lag" in str(Latency(0.5))


def test_a_span_has_a_unit() -> None:
    span = Span()
    assert [span.convert(text, None, None) for text in ("60", "90s", "5m", "1h")] == [
        60,
        90,
        300,
        3600,
    ]
    for text in ("", "x", "-1", "0s", "5 y", "nan"):
        with pytest.raises(click.BadParameter):
            span.convert(text, None, None)


@pytest.mark.parametrize(
    ("life", "leaf", "root"),
    [
        (Life.ALIVE, [], []),
        (Life.BUSY, [], []),
        (Life.NEVER, [("worker", Severity.WARNING)], []),
        (Life.UNKNOWN, [("unknown", Severity.UNKNOWN)], [("unknown", Severity.UNKNOWN)]),
        *(
            (life, [("worker", Severity.CRITICAL)], [("worker", Severity.WARNING)])
            for life in (Life.GONE, Life.HUNG, Life.STOPPED)
        ),
    ],
)
def test_check_reports_a_worker_that_is_not_known_to_run(
    life: Life, leaf: list[tuple[str, Severity]], root: list[tuple[str, Severity]]
) -> None:
    for kind, expected in (("leaf", leaf), ("root", root)):
        node = rules.NodeFacts("n", kind, worker=Running("worker", "w", life))
        found = rules.findings(node, None, "q")
        assert [(one.kind, one.severity) for one in found] == expected
