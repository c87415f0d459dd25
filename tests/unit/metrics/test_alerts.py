"""Every cause of a verdict makes an alert fire; a healthy cascade none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from londiste.cascade.daemons import Life, Running
from londiste.metrics import samples
from londiste.metrics.collect import Cascade, Counted, NodeMeasures, only
from londiste.monitor import catalog, lock_waits, verdict
from londiste.monitor.alarms import DatabaseFacts, drift_findings
from londiste.monitor.lag import Behind
from londiste.monitor.lock_waits import LockWait
from londiste.monitor.queues.model import Finding, Severity
from londiste.monitor.retention import Retention
from londiste.monitor.status import NodeStatus, Status, TableCounts, Underway
from londiste.monitor.verdict import Allowed
from tests.unit.metrics.test_samples import HALTED, LEAF, ROOT, SHARE, promtool

AT = datetime(2026, 1, 1, tzinfo=UTC)
HEALTHY = replace(LEAF, behind=Behind(0, 0, 0.0), tables=ROOT.tables)
ALLOWED = Allowed(lag=10.0)


def cascade(*nodes: NodeStatus, **measures: NodeMeasures) -> Cascade:
    return Cascade(Status("q", "root", nodes), measures)


def beside(**changes: object) -> Cascade:
    """A root, and a leaf with these changes."""
    return cascade(ROOT, replace(HEALTHY, **changes))  # type: ignore[arg-type]


def with_daemon(kind: str, life: Life = Life.GONE, error: str = "") -> Cascade:
    return beside(daemons=(Running(kind, kind, life, error=error),))


def with_alarm(*alarms: Finding) -> Cascade:
    facts = DatabaseFacts("q", None, (), {"public.t": 2} if alarms[0].kind == "drift" else {})
    return cascade(ROOT, replace(HEALTHY, alarms=alarms), leaf=NodeMeasures("d", facts))


SILENT = NodeStatus("leaf", "dead", unreachable="no answer", uptodate=False)
WAIT = LockWait("londiste worker w", 7, 60.0, None, "psql of bob", None, "select 1")
#: By name: what is wrong.
CAUSES = {
    "unreachable": cascade(ROOT, SILENT),
    "unreachable, marked as failed": cascade(ROOT, replace(SILENT, tagged_dead=True)),
    "no-root": cascade(HEALTHY, replace(HEALTHY, name="other")),
    "no-root, and one node is shown": only(
        cascade(HEALTHY, replace(HEALTHY, name="other")), ["leaf"]
    ),
    "unknown-node": only(beside(), ["gone"]),
    "halted": beside(halted=(HALTED,)),
    "error": beside(errors=(("leaf_worker", "no"),)),
    "copy": beside(errors=(("leaf_worker.copy.public.t", "no"),)),
    **{kind: beside(errors=((kind, "no"),)) for kind in verdict.SOURCES},
    "worker": with_daemon("worker"),
    "worker, never": with_daemon("worker", Life.NEVER),
    "ticker": with_daemon("ticker"),
    "notify": with_daemon("notify"),
    "audit, fails": with_daemon("audit", Life.ALIVE, "no"),
    "read-from": with_daemon("standby", Life.ALIVE, "it lags; node root is read"),
    "unknown": beside(daemons=(Running("worker", "w", Life.UNKNOWN),)),
    "unknown, tables": beside(tables=None),
    "paused": beside(paused=True),
    "watermark-group": beside(attrs={"sync_watermark": "gone"}),
    "copies-paused": beside(copies_paused=True, tables=TableCounts(2, 1, 4)),
    "operation": beside(operation=Underway("switchover", "londiste switchover", "me", AT)),
    "held": beside(held=Retention(1, 9999.0, "c", "consumer c", "start it")),
    "lag": beside(behind=Behind(9, 9, 600.0)),
    "lag, by its own limit": beside(behind=Behind(9, 9, 150.0)),
    "lag, position expired": beside(behind=None),
    "lag, position expired, alone": Cascade(
        Status("q", "leaf", (replace(HEALTHY, behind=None),), root_answers=True), {}
    ),
    "lock-wait": with_alarm(*lock_waits.findings((WAIT,), "q")),
    "root-closed": with_alarm(Finding(Severity.CRITICAL, "root-closed", "x", "y", "z", "q")),
    "drift": with_alarm(*drift_findings("q", {"public.t": 2})),
    "rotation-late": with_alarm(Finding(Severity.WARNING, "rotation-late", "x", "y", "z", "q")),
}


def series(found: Cascade) -> Iterator[dict[str, str]]:
    for one in samples.cascade(Counted(found), ALLOWED):
        assert isinstance(one.value, int | float)
        labels = ",".join(f"{name}={json.dumps(text)}" for name, text in one.labels.items())
        yield {"series": f"{one.name}{{{labels}}}", "values": f"{float(one.value)}x40"}


def test_every_kind_of_finding_about_a_node_is_among_the_causes() -> None:
    kinds = {name.partition(",")[0] for name in CAUSES}
    assert set(catalog.GROUPS["Nodes"]) - {"connection", "internal-rights", "schema-owner"} <= kinds
    for name, found in CAUSES.items():
        problems = verdict.findings(found.status, ALLOWED, found.only)
        alone = len(found.status.nodes) == 1
        assert {one.kind for one in problems} - ({"no-root"} if alone else set()) == {
            name.partition(",")[0]
        }, name


def evaluate(cases: dict[str, tuple[Cascade, int]], expression: str, directory: Path) -> None:
    """Requires a value of an expression after a quarter of an hour with the facts of each case."""
    tests = [
        {
            "interval": "30s",
            "input_series": list(series(found)),
            "promql_expr_test": [
                {
                    # Without the comment promtool does not say which case has failed.
                    "expr": f"{expression} # {name}",
                    "eval_time": "15m",
                    "exp_samples": [{"labels": "{}", "value": value}],
                }
            ],
        }
        for name, (found, value) in cases.items()
    ]
    file = directory / "test.yml"
    rules = {"rule_files": [str(SHARE / "rules.yml")], "evaluation_interval": "30s"}
    file.write_text(json.dumps({**rules, "tests": tests}))
    promtool("test", "rules", str(file))


FIRING = 'count(ALERTS{alertstate="firing"})'


def test_an_alert_fires_for_each_cause(tmp_path: Path) -> None:
    cases = {"healthy": (beside(), 0), **{name: (found, 1) for name, found in CAUSES.items()}}
    evaluate(cases, f"{FIRING} > bool 0 or vector(0)", tmp_path)


def test_lag_that_is_reported_in_seconds_is_one_alert(tmp_path: Path) -> None:
    evaluate({"lag": (CAUSES["lag"], 1)}, FIRING, tmp_path)
