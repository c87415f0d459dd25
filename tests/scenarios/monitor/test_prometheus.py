"""A real Prometheus scrapes ``londiste run``: every query is answered, and an alert fires."""

from __future__ import annotations

import json
import shutil
import socket
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.line import Line
from tests.fixtures.one_file import OneFile
from tests.integration.metrics.test_daemons import base
from tests.unit.metrics.test_samples import SHARE, panel_queries

pytest.importorskip("prometheus_client", reason="needs the extra web")


class Prometheus:
    """A server that scrapes each second, with the shipped rules."""

    def __init__(self, line: Line, home: Path, target: str) -> None:
        program = shutil.which("prometheus")
        if program is None:
            pytest.skip("no prometheus here: apt-get install prometheus")
        rules = (SHARE / "rules.yml").read_text(encoding="utf-8")
        (home / "rules.yml").write_text(rules)
        (home / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
            "rule_files: [rules.yml]\nscrape_configs:\n  - job_name: londiste\n"
            f"    static_configs: [{{targets: ['{target}']}}]\n"
        )
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.process = line.processes.start(
            "prometheus",
            [
                program,
                f"--config.file={home / 'prometheus.yml'}",
                f"--storage.tsdb.path={home / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
        )

    def get(self, path: str, **query: str) -> Any:
        """The data of an answer; None while there is none."""
        try:
            url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
            with urllib.request.urlopen(url, timeout=60) as answer:
                found = json.load(answer)
        except OSError:
            return None
        assert found["status"] == "success", found
        return found["data"]

    def query(self, expression: str) -> list[Any]:
        """The result of an instant query."""
        found = self.get("query", query=expression)
        assert found is not None, expression
        return list(found["result"])


@pytest.mark.slow
def test_prometheus_answers_every_query_and_raises_an_alert(
    line: Line, one_file: OneFile, tmp_path: Path
) -> None:
    one_file.write(
        {"n1": "root", "n2": "leaf of n1"},
        '\n[tables]\ninclude = ["public.*"]\n[worker]\nengine = "local"\n',
    )
    root, leaf = one_file.db["n1"], one_file.db["n2"]
    root.execute("create table t (id int primary key, v text); insert into t values (1, 'a')")
    assert one_file("apply").code == 0
    run = line.processes.start(
        "run",
        [
            *(sys.executable, "-m", "londiste", "-c", str(one_file.path)),
            *("--set", "metrics=127.0.0.1:0", "run"),
        ],
        {"LONDISTE_METRICS": "127.0.0.1:1"},
    )
    address = base(run, line)
    prometheus = Prometheus(line, tmp_path, address.removeprefix("http://"))

    def ready() -> bool:
        targets = (prometheus.get("targets") or {}).get("activeTargets", [])
        up = [one["health"] for one in targets] == ["up"]
        return up and bool(prometheus.query('sum(londiste_tables{state="ok",node="n2"}) == 1'))

    line.wait(ready, "the table in Prometheus", 90)
    rated = "rate(londiste_queue_events_total[1m])"
    line.wait(lambda: prometheus.query(rated), "two scrapes", 60)

    for expression in panel_queries():
        plain = expression.replace("$queue", ".*").replace("$__rate_interval", "1m")
        result = prometheus.query(plain)
        assert result, plain
    # Its children have no endpoint of their own.
    assert run.said().count("metrics at ") == 1
    metadata = prometheus.get("metadata")
    assert metadata["londiste_applied_events_total"][0]["type"] == "counter"

    leaf.execute("set session_replication_role = replica; insert into t values (2, 'mine')")
    root.execute("insert into t values (2, 'theirs')")

    def alerts() -> set[str]:
        found = prometheus.get("alerts")["alerts"]
        return {one["labels"]["alertname"] for one in found if one["state"] == "firing"}

    line.wait(lambda: "LondisteHalted" in alerts(), "the alert", 60)
    assert alerts() == {"LondisteHalted"}
