"""Samples of a cascade: names, states, bounds; and what makes a node ready."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest
import yaml

from londiste.cascade.daemons import Life, Running
from londiste.copy.progress import Progress
from londiste.metrics import samples
from londiste.metrics.cache import Cache, Outcome
from londiste.metrics.catalog import BY_NAME, METRICS, MOST_CONSUMERS, OTHERS, Kind, Sample
from londiste.metrics.collect import (
    Cascade,
    CopiedBytes,
    Counted,
    Databases,
    NodeMeasures,
    only,
)
from londiste.metrics.pages import consumer_not_ready, not_ready, of_ticker
from londiste.metrics.tally import ConsumerTally, TickerTally, WorkerTally
from londiste.monitor.alarms import DatabaseFacts
from londiste.monitor.lag import Behind, Latency
from londiste.monitor.node_errors import Halted
from londiste.monitor.queues.model import ConsumerFacts, MonitorFacts, QueueFacts
from londiste.monitor.status import NodeStatus, Status, TableCounts
from londiste.replication.coverage import Audited
from londiste.ticker.database import Counts

WORKER = Running("worker", "leaf_worker", Life.ALIVE)
ROOT = NodeStatus(
    "root", "root", tick=9, behind=Behind(0, 0, 0.0), tables=TableCounts(3, 0, 0), applied_events=70
)
LEAF = NodeStatus(
    "leaf",
    "leaf",
    provider="root",
    tick=7,
    behind=Behind(2, 30, 12.5),
    latency=Latency(3.0, fetch=0.2),
    tables=TableCounts(2, 1, 4),
    daemons=(WORKER,),
    applied_events=40,
    audit=Audited(0.98, 3, 2, 5, None),
)
HALTED = Halted("1:2", "leaf_worker", "public.t", "insert", ("id",))
CONSUMER = ConsumerFacts("q", "reader", pending=5, lag=8.0, dead_letters=2, retries=3)
QUEUES = MonitorFacts("d", (QueueFacts("q", last_id=99, bytes=4096),), (CONSUMER,))
COPY = Progress("public.t", 1, 100, 400, 9, 1, 1, 4, 2.0, None, None)


def counted(*nodes: NodeStatus, **measures: NodeMeasures) -> Counted:
    return Counted(Cascade(Status("q", "root", nodes), measures), {"leaf": 7})


def values(found: list[Sample], name: str, label: str = "node") -> dict[str, object]:
    return {one.labels[label]: one.value for one in found if one.name == f"londiste_{name}"}


def everything() -> list[Sample]:
    """A sample of each metric of a cascade, and of processes."""
    facts = DatabaseFacts("q", QUEUES, (), {"public.t": 2})
    held = NodeMeasures("d@h:1", facts, (COPY,), {"missing": 3})
    ticker, worker = TickerTally("ticker"), WorkerTally("worker")
    consumer = ConsumerTally("consumer")
    consumer.batch(3, 0.3)
    ticker.round("d", 0.003)
    ticker.count(Counts(1, 2, 3))
    worker.batch(10, 0.003)
    worker.batch(10, 99.0)
    late = MonitorFacts("d", (QueueFacts("q", tick_age=9999.0),))
    return [
        *samples.process(Outcome(1, True, 1.0, 0.2)),
        *samples.cascade(counted(ROOT, replace(LEAF, halted=(HALTED,)), root=held)),
        *samples.databases(Databases({"e@h:1": late, "f@h:1": None})),
        *ticker.samples(),
        *worker.samples(),
        *consumer.samples(),
    ]


def test_every_sample_is_in_the_catalog_with_its_labels() -> None:
    for one in everything():
        assert set(one.labels) == set(BY_NAME[one.name].labels), one


def test_names_follow_the_rules_of_prometheus() -> None:
    for one in METRICS:
        assert re.fullmatch(r"londiste_[a-z]+(_[a-z]+)*", one.name)
        assert one.name.endswith("_total") == (one.kind is Kind.COUNTER), one.name
        assert one.help.endswith("."), one.name
    assert len(BY_NAME) == len(METRICS)


def test_a_node_that_is_halted_has_no_table_that_is_ok() -> None:
    found = list(samples.cascade(counted(ROOT, LEAF)))
    leaf = [one for one in found if one.labels.get("node") == "leaf"]
    assert values(leaf, "tables", "state") == {
        **dict.fromkeys(samples.TABLE_STATES, 0),
        "ok": 2,
        "copying": 1,
        "ignored": 4,
    }
    assert values(found, "lag_seconds") == {"root": 0.0, "leaf": 12.5}
    assert values(found, "applied_events_total") == {"root": 70, "leaf": 40}
    assert values(found, "copy_bytes_total") == {"leaf": 7}
    assert values(found, "daemon_up") == {"leaf": True}
    assert values(found, "audit_verified_ratio") == {"leaf": 0.98}
    assert values(leaf, "latency_seconds", "part") == {"tick": 3.0, "fetch": 0.2}
    halted = list(samples.cascade(counted(ROOT, replace(LEAF, halted=(HALTED,)))))
    leaf = [one for one in halted if one.labels.get("node") == "leaf"]
    states = values(leaf, "tables", "state")
    assert (states["ok"], states["halted"]) == (0, 2)
    assert values(halted, "halted") == {"root": 0, "leaf": 1}
    assert values(halted, "status", "queue") == {"q": 2}
    assert values(halted, "findings", "kind")["halted"] == 1


def test_a_node_that_does_not_answer_has_no_other_values() -> None:
    dead = NodeStatus("leaf", "dead", unreachable="no answer: password=secret")
    found = [
        one for one in samples.cascade(counted(ROOT, dead)) if one.labels.get("node") == "leaf"
    ]
    names = {one.name for one in found} - {"londiste_copy_bytes_total"}
    assert names == {"londiste_node_up", "londiste_findings"}
    assert "secret" not in repr(found)


def test_a_daemon_that_never_reported_is_not_down() -> None:
    never = replace(ROOT, daemons=(replace(WORKER, life=Life.NEVER),))
    assert values(list(samples.cascade(counted(never))), "daemon_up") == {}
    gone = replace(ROOT, daemons=(replace(WORKER, life=Life.GONE),))
    assert values(list(samples.cascade(counted(gone))), "daemon_up") == {"root": False}


def test_consumers_are_bounded_and_copies_are_one() -> None:
    names = [f"c{number:03}" for number in range(MOST_CONSUMERS + 20)]
    names += [f"a.copy.public.t{number}" for number in range(500)]
    consumers = tuple(replace(CONSUMER, name=name, pending=1) for name in names)
    found = list(samples.queues("d@h:1", replace(QUEUES, consumers=consumers)))
    pending = values(found, "queue_events_pending", "consumer")
    assert len(pending) == MOST_CONSUMERS + 1
    assert pending[OTHERS] == 520
    assert not any(".copy." in name for name in pending)
    assert values(found, "queue_dead_letters", "consumer")["c000"] == 2


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"behind": Behind(2, 30, 9.0), "tables": TableCounts(2, 0, 4)}, ""),
        ({}, "node leaf: 1 tables are not in sync; node leaf: behind by 12s, allowed: 10s"),
        ({"behind": None, "tables": None}, "node leaf: lag unknown"),
        ({"behind": Behind(2, 30, None), "tables": None}, "node leaf: lag unknown"),
        ({"halted": (HALTED,)}, "node leaf: halted"),
        ({"paused": True}, "node leaf: paused"),
        ({"errors": (("leaf_worker", "Key (id)=(7) exists"),)}, "node leaf: failing"),
        ({"daemons": (replace(WORKER, life=Life.HUNG),)}, "node leaf: stale"),
        ({"unreachable": "no route"}, "node leaf: unreachable"),
    ],
)
def test_a_node_is_ready_when_it_is_in_sync(changes: dict[str, object], reason: str) -> None:
    node = replace(LEAF, **changes)  # type: ignore[arg-type]
    assert "; ".join(not_ready(Outcome(counted(ROOT, node), True, 1.0, 0.1), 10.0)) == reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"lag": 9.0}, ""),
        # Without events there are few ticks.
        ({"lag": 99.0, "pending": 0}, ""),
        ({"lag": None}, "consumer reader: lag unknown"),
        ({"lag": 99.0}, "consumer reader: behind by 1m39s, allowed: 10s"),
        ({"paused": "x"}, "consumer reader: paused"),
        ({"lost": True}, "consumer reader: its position is lost"),
    ],
)
def test_a_consumer_is_ready_when_it_is_up_to_date(changes: dict[str, object], reason: str) -> None:
    facts = replace(QUEUES, consumers=(replace(CONSUMER, **changes),))  # type: ignore[arg-type]
    found = consumer_not_ready(Outcome(Databases({"d": facts}), True, 1.0, 0.1), 10.0)
    assert "; ".join(found) == reason


def test_a_consumer_without_a_registration_or_an_answer_is_not_ready() -> None:
    nothing = Databases({"d": replace(QUEUES, consumers=())})
    assert consumer_not_ready(Outcome(nothing, True, 1.0, 0.1), 10.0) == ["not registered"]
    silent = ["the database does not answer"]
    assert consumer_not_ready(Outcome(nothing, False, 1.0, 0.1), 10.0) == silent


def test_nothing_is_ready_without_an_answer() -> None:
    silent = ["the databases do not answer"]
    assert not_ready(Outcome(None, False, 1.0, 0.1), 10.0) == silent
    assert not_ready(Outcome(counted(ROOT), False, 1.0, 0.1), 10.0) == silent


def test_a_chosen_node_that_the_cascade_does_not_have_is_down_and_not_ready() -> None:
    found = counted(ROOT, replace(LEAF, behind=Behind(0, 0, 0.0), tables=TableCounts(2, 0, 4)))
    for names, lines in (
        ({"leaf"}, []),
        ({"gone"}, ["node gone: not in the cascade"]),
        ({"leaf", "gone"}, ["node gone: not in the cascade"]),
    ):
        chosen = Counted(only(found.cascade, names), found.copied)
        assert not_ready(Outcome(chosen, True, 1.0, 0.1), 10.0) == lines
        shown = list(samples.cascade(chosen))
        assert values(shown, "node_up") == {name: name != "gone" for name in names}
        kinds = {"unknown-node": 1} if lines else {}
        assert values(shown, "findings", "kind") == kinds
        assert values(shown, "status", "queue") == {"q": 2 if lines else 0}


def test_a_cascade_of_which_nothing_is_known_has_samples() -> None:
    shown = list(samples.cascade(counted()))
    assert values(shown, "status", "queue") == {"q": 2}


def test_nodes_that_are_not_chosen_tell_whether_the_position_of_a_chosen_one_has_expired() -> None:
    found = only(counted(ROOT, replace(LEAF, behind=None)).cascade, ["leaf"])
    shown = list(samples.cascade(Counted(found)))
    assert values(shown, "findings", "kind") == {"lag": 1}
    assert values(shown, "status", "queue") == {"q": 2}
    # There is a root, although it is not shown.
    assert values(shown, "node_up") == {"leaf": True}


def test_bytes_of_copies_grow_over_their_ends_and_new_starts() -> None:
    copied = CopiedBytes()
    seen = []
    for sizes in ({"a": 100}, {"a": 150, "b": 10}, {"b": 30}, {"b": 5}, {}):
        copies = tuple(replace(COPY, table=name, bytes=size) for name, size in sizes.items())
        facts = NodeMeasures("d", DatabaseFacts("q", None, (), {}), copies)
        seen.append(copied.add(Cascade(Status("q", "leaf", ()), {"leaf": facts}))["leaf"])
    # What was there at the first look is not counted, and "b" started anew.
    assert seen == [0, 60, 80, 85, 85]


def test_a_database_without_a_round_of_ticks_is_late() -> None:
    tally = TickerTally()
    tally.round("a", 0.1)
    assert tally.late({"a": 0.0, "b": 0.0}, 30.0) == ["b"]
    assert (tally.ticked("a"), tally.ticked("b")) == (True, False)


SHARE = resources.files("londiste.metrics") / "share"


def promtool(*args: str, stdin: bytes | None = None) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool here: apt-get install prometheus")
    done = subprocess.run([program, *args], input=stdin, capture_output=True, check=False)
    printed = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, printed
    assert "error" not in printed.lower(), printed


def test_promtool_finds_nothing_in_the_metrics() -> None:
    pytest.importorskip("prometheus_client", reason="needs the extra web")
    from londiste.metrics import exposition

    text = exposition.render(everything())
    assert b'londiste_lag_seconds{node="leaf",queue="q"} 12.5\n' in text
    assert b'londiste_conflicts_total{kind="missing",node="root",queue="q"} 3.0\n' in text
    assert b'londiste_worker_batch_duration_seconds_bucket{daemon="worker",le="60.0"} 1.0\n' in text
    assert b'londiste_worker_batch_duration_seconds_bucket{daemon="worker",le="+Inf"} 2.0\n' in text
    promtool("check", "metrics", stdin=text)


@pytest.mark.parametrize(("facts", "success"), [(QUEUES, 1.0), (None, 0.0)])
def test_a_ticker_says_that_a_database_does_not_answer(
    facts: MonitorFacts | None, success: float
) -> None:
    pytest.importorskip("prometheus_client", reason="needs the extra web")
    cache = Cache(lambda: Databases({"a": QUEUES, "b": facts}))
    pages = of_ticker(cache, lambda: iter(()), lambda: [] if facts else ["b"])
    assert f"londiste_collect_success {success}\n".encode() in pages["/metrics"]().body
    assert (pages["/readyz"]().status == 200) is bool(success)


def test_hostile_names_stay_in_their_label() -> None:
    pytest.importorskip("prometheus_client", reason="needs the extra web")
    from londiste.metrics import exposition

    name = 'x"} 1\nlondiste_halted{a="\\\x1b[2J\x00' + "y" * 5000
    found = exposition.render(samples.queues(name, QUEUES))
    assert len(found) < 20_000
    assert b"\nlondiste_halted" not in found
    assert rb'="x\"} 1\nlondiste_halted{a=\"\\\\x1b[2J\\x00y' in found
    assert all(line.isprintable() for line in found.decode().split("\n"))
    promtool("check", "metrics", stdin=found)


def test_promtool_accepts_the_rules_and_their_tests() -> None:
    here = Path(__file__).with_name("rules_test.yml")
    promtool("check", "rules", str(SHARE / "rules.yml"))
    promtool("test", "rules", str(here))
    tested = {
        one["alertname"]
        for t in yaml.safe_load(here.read_text())["tests"]
        for one in t["alert_rule_test"]
    }
    rules = yaml.safe_load((SHARE / "rules.yml").read_text(encoding="utf-8"))
    assert tested == {one["alert"] for one in rules["groups"][0]["rules"]}


def panel_queries() -> list[str]:
    """All queries of the dashboard."""
    dashboard = json.loads((SHARE / "dashboard.json").read_text(encoding="utf-8"))
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_queries_use_metrics_that_exist() -> None:
    rules = yaml.safe_load((SHARE / "rules.yml").read_text(encoding="utf-8"))
    found = [*panel_queries(), *(one["expr"] for one in rules["groups"][0]["rules"])]
    assert len(found) > 30
    for expression in found:
        for name in re.findall(r"londiste_\w+", expression):
            assert name.removesuffix("_bucket") in BY_NAME, expression


@pytest.mark.parametrize(
    ("one", "other"), [("y" * 300 + "1", "y" * 300 + "2"), ("x\\u202e", "x\u202e")]
)
def test_two_names_are_two_series(one: str, other: str) -> None:
    pytest.importorskip("prometheus_client", reason="needs the extra web")
    from londiste.metrics import exposition

    label = 'londiste_node_up{node="'
    made = [Sample("londiste_node_up", 1.0, {"node": name, "queue": "q"}) for name in (one, other)]
    lines = exposition.render(made).decode().splitlines()
    found = [line for line in lines if line.startswith(label)]
    assert len(set(found)) == 2
    assert all(len(line) < 300 for line in found)
