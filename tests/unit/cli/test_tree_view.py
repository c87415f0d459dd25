"""The picture of a cascade, as text."""

from __future__ import annotations

from londiste.cli.nodes.status import shown
from londiste.daemon.durations import dhms
from londiste.monitor.queues.model import Finding, Severity
from londiste.monitor.status import NodeStatus, Status, TableCounts
from londiste.monitor.tree_view import compact, tree
from londiste.replication.coverage import Audited

THREE = Status(
    "sales",
    "n2",
    (
        NodeStatus("n1", "root", tables=TableCounts(4, 0, 0), lag=3, tick=812),
        NodeStatus("n2", "branch", "", "n1", TableCounts(4, 0, 0), 3, 812),
        NodeStatus("n3", "leaf", "", "n2", TableCounts(3, 1, 0), 5, 811, paused=True),
    ),
)


def test_a_chain_is_drawn_step_by_step() -> None:
    assert (
        "\n".join(tree(THREE))
        == """\
Queue: sales   Local node: n2

n1 (root)
  |                           Tables: 4/0/0
  |                           Lag: 3s, Tick: 812
  +--: n2 (branch)
     |                        Tables: 4/0/0
     |                        Lag: 3s, Tick: 812
     +--: n3 (leaf)
                              Tables: 3/1/0 (not current)
                              Lag: 5s, Tick: 811, PAUSED"""
    )


def test_compact_is_one_line_per_node() -> None:
    lines = compact(THREE)
    assert len(lines) == 3
    assert lines[1].startswith("   n2 (branch)")
    assert lines[1].index("Tables:") == 60
    assert lines[2].index("Lag:") == 90


def test_the_bar_goes_on_only_while_siblings_follow() -> None:
    status = Status(
        "q",
        "r",
        (
            NodeStatus("r", "root", tick=1),
            NodeStatus("deep", "branch", "", "r", tick=1),
            NodeStatus("below", "leaf", "", "deep", tick=1),
            NodeStatus("flat", "leaf", "", "r", tick=1),
        ),
    )
    titles = [line for line in tree(status)[2:] if "(" in line]
    assert titles == [
        "r (root)",
        "  +--: flat (leaf)",
        "  +--: deep (branch)",
        "     +--: below (leaf)",
    ]
    flat = tree(status).index("  +--: flat (leaf)")
    assert tree(status)[flat + 1].startswith("  |")


def test_nodes_without_root_and_in_circles_are_shown_too() -> None:
    status = Status(
        "q",
        "a",
        (
            NodeStatus("gone", "dead", unreachable="gone@host: no answer"),
            NodeStatus("a", "branch", "", "b", tick=1),
            NodeStatus("b", "branch", "", "a", tick=1),
        ),
    )
    text = "\n".join(tree(status))
    for name in ("gone (dead)", "a (branch)", "b (branch)"):
        assert text.count(name) == 1
    assert "ERR: gone@host: no answer" in text


def test_trouble_is_painted() -> None:
    node = NodeStatus("n", "root", "svc", tick=1, lag=61, uptodate=False, errors=(("w", "broken"),))
    text = "\n".join(tree(Status("q", "n", (node,)), lambda t: f"<{t}>"))
    assert "n (root, svc)" in text
    assert "Lag: <1m1s>, Tick: 1, NOT UPTODATE" in text
    assert "<ERR: w: broken>" in text


def test_the_coverage_of_the_audit_is_shown() -> None:
    node = NodeStatus("n", "leaf", tick=1, audit=Audited(0.98, 3, 2, 1, None))
    text = "Audit: 98 % of rows verified in the last 24 h, 2 of 3 tables; 1 rows differ"
    assert any(line.endswith(text) for line in tree(Status("q", "n", (node,))))


def test_alarms_about_a_queue_are_shown() -> None:
    alarm = Finding(Severity.CRITICAL, "drift", "table t: 2 rows differ", "", "")
    node = NodeStatus("n", "root", tick=1, alarms=(alarm,))
    found = tree(Status("q", "n", (node,)), lambda text: f"<{text}>")
    assert found[-1].strip() == "<CRITICAL: table t: 2 rows differ>"


def test_spans_of_time_are_short() -> None:
    assert [dhms(s) for s in (0, 59.9, 60, 3600, 90061)] == [
        "0s",
        "59s",
        "1m0s",
        "1h0m0s",
        "1d1h1m1s",
    ]


def test_a_name_or_error_writes_no_control_characters() -> None:
    lines = ["n1\x1b[2J (root)", "\ue000ERR: a\nb\ue001"]
    assert shown(lines, colour=False) == ["n1\\x1b[2J (root)", "ERR: a\\x0ab"]
    assert shown(lines, colour=True)[1] == "\x1b[31mERR: a\\x0ab\x1b[0m"
