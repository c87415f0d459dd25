"""Endpoints of real daemons, and the command for the textfile collector."""

from __future__ import annotations

import re
import stat
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.line import QUEUE, Command, Line
from tests.support.scenarios.processes import Process

pytest.importorskip("prometheus_client", reason="needs the extra web")

TABLE = "create table t (id int primary key, v text);"


def base(process: Process, line: Line) -> str:
    """The address that a daemon has logged."""
    found = line.wait(
        lambda: re.search(r"metrics at (http://\S+)/metrics", process.said()), "the endpoint"
    )
    return str(found[1])


def get(url: str) -> tuple[int, str]:
    """Status and text of a page."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def value(text: str, series: str) -> float:
    """The value of a series with all its labels."""
    found = re.search(rf"(?m)^{re.escape(series)} (\S+)$", text)
    assert found, f"{series} is not in\n{text}"
    return float(found[1])


def test_worker_and_ticker_show_what_they_do(line: Line, command: Command, tmp_path: Path) -> None:
    root = line.node("root", NodeType.ROOT, schema=TABLE)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=TABLE, metrics="127.0.0.1:0")
    line.add(root, "t")
    line.add(leaf, "t")
    root.database.execute(
        "select pgq.set_queue_config(%s, 'ticker_idle_period', '1 s'),"
        " pgq.set_queue_config(%s, 'ticker_max_lag', '100 ms')",
        QUEUE,
        QUEUE,
    )
    argv = [sys.executable, "-m", "londiste", "--set", "metrics=[::1]:0", "ticker"]
    ticker = line.processes.start("ticker", [*argv, "--db", root.database.dsn])
    worker = base(line.start(leaf), line)
    root.database.execute("insert into t values (1, 'a')")
    line.wait(lambda: leaf.database.value("select count(*) from t") == 1, "the row")

    assert get(f"{worker}/healthz") == (200, "ok\n")
    line.wait(lambda: get(f"{worker}/readyz") == (200, "ok\n"), "readiness")
    with ThreadPoolExecutor(20) as clients:
        pages = list(clients.map(get, [f"{worker}/metrics"] * 20))
    assert {code for code, _ in pages} == {200}
    text = pages[0][1]
    place = f'node="leaf",queue="{QUEUE}"'
    assert value(text, f"londiste_node_up{{{place}}}") == 1
    assert value(text, f"londiste_lag_events{{{place}}}") == 0
    assert value(text, f'londiste_tables{{{place},state="ok"}}') == 1
    assert value(text, f'londiste_daemon_up{{daemon="worker",{place}}}') == 1
    assert value(text, f"londiste_applied_events_total{{{place}}}") >= 1
    assert value(text, "londiste_worker_batches_total") >= 1
    assert value(text, "londiste_worker_batch_duration_seconds_count") >= 1
    assert value(text, "londiste_collect_success") == 1
    # Its own node only.
    assert 'node="root"' not in text

    ticking = base(ticker, line)
    line.wait(lambda: get(f"{ticking}/readyz") == (200, "ok\n"), "readiness of the ticker")
    text = get(f"{ticking}/metrics")[1]
    assert value(text, 'londiste_ticker_databases{state="ok"}') == 1
    assert value(text, "londiste_ticks_total") >= 1
    assert value(text, "londiste_tick_duration_seconds_count") >= 1
    pending = re.findall(r"londiste_queue_events_pending\{(.*)\}", text)
    assert any(f'consumer="leaf_worker",database="{root.database.name}@' in one for one in pending)

    leaf.database.execute(
        "set session_replication_role = replica; insert into t values (2, 'mine')"
    )
    root.database.execute("insert into t values (2, 'hidden')")
    halted = (503, "node leaf: halted\n")
    line.wait(lambda: get(f"{worker}/readyz") == halted, "that the node is not ready")
    text = get(f"{worker}/metrics")[1]
    assert value(text, f"londiste_halted{{{place}}}") == 1
    assert value(text, f'londiste_tables{{{place},state="ok"}}') == 0
    assert value(text, f'londiste_tables{{{place},state="halted"}}') == 1
    assert "hidden" not in text
    assert get(f"{worker}/healthz")[0] == 200

    # The whole cascade, once.
    output = tmp_path / "londiste.prom"
    shown = command(leaf, "metrics", "--once", "--output", str(output))
    assert (shown.code, shown.out, shown.err) == (0, "", "")
    text = output.read_text()
    assert stat.S_IMODE(output.stat().st_mode) == 0o644
    assert value(text, f'londiste_status{{queue="{QUEUE}"}}') == 2
    assert value(text, f"londiste_halted{{{place}}}") == 1
    assert value(text, f'londiste_node_up{{node="root",queue="{QUEUE}"}}') == 1
    assert [one.name for one in tmp_path.iterdir() if "londiste.prom" in one.name] == [output.name]

    # A second daemon at the same address, and a wrong one.
    taken = worker.removeprefix("http://")
    for address, words in ((taken, "cannot listen on"), ("9187", "not an address HOST:PORT")):
        line.configure(root, metrics=address)
        refused = command(root, "worker")
        assert refused.code != 0
        first, *rest = refused.err.splitlines()
        assert first.startswith("error: ")
        assert words in first
        assert "Traceback" not in "".join(rest)


def test_a_cascade_that_does_not_answer_is_said(
    line: Line, command: Command, tmp_path: Path
) -> None:
    root = line.node("root", NodeType.ROOT)
    root.config.write_text(f"db = {'host=127.0.0.1 port=1 dbname=x'!r}\nqueue_name = 'line'\n")
    output = tmp_path / "londiste.prom"
    shown = command(root, "metrics", "--once", "--output", str(output))
    assert shown.code != 0
    assert shown.err.startswith("error: ")
    text = output.read_text()
    assert value(text, "londiste_collect_success") == 0
    assert "londiste_node_up" not in text
    for args in ((), ("--once", "--rules"), ("--rules", "--output", "x")):
        refused = command(root, "metrics", *args)
        assert refused.code != 0, args
        assert "hint: " in refused.err
    refused = command(root, "metrics", "--once", "--output", str(tmp_path / "none" / "x"))
    assert "Traceback" not in refused.err
    assert command(root, "metrics", "--rules").out.startswith("# Alert rules of Londiste")
    assert command(root, "metrics", "--dashboard").json["title"] == "Londiste"
