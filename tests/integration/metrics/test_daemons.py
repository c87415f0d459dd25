"""Endpoints of real daemons, and the command for the textfile collector."""

from __future__ import annotations

import os
import re
import signal
import stat
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from londiste.cascade.model import NodeType
from londiste.pgq import consumers
from tests.fixtures.line import QUEUE, Command, Line
from tests.fixtures.one_file import OneFile
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
    assert value(text, 'londiste_worker_batches_total{daemon="worker"}') >= 1
    assert value(text, 'londiste_worker_batch_duration_seconds_count{daemon="worker"}') >= 1
    assert value(text, "londiste_collect_success") == 1
    # Its own node only.
    assert 'node="root"' not in text

    ticking = base(ticker, line)
    line.wait(lambda: get(f"{ticking}/readyz") == (200, "ok\n"), "readiness of the ticker")
    text = get(f"{ticking}/metrics")[1]
    assert value(text, 'londiste_ticker_databases{state="ok"}') == 1
    assert value(text, 'londiste_ticks_total{daemon="ticker"}') >= 1
    assert value(text, 'londiste_tick_duration_seconds_count{daemon="ticker"}') >= 1
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


READER = """
import sys, londiste
class Reader(londiste.Consumer):
    queue, name = "line", "reader"
    def process_event(self, event, ctx):
        if event.type == "halt":
            raise londiste.LondisteError("no")
Reader.main(sys.argv[1:])
"""


def test_a_consumer_shows_its_position_and_its_batches(line: Line) -> None:
    root = line.node("root", NodeType.ROOT)
    dsn = root.database.dsn
    argv = [sys.executable, "-c", READER, "--db", dsn]
    for name in ("reader", "another"):
        root.database.execute("select pgq.register_consumer(%s, %s)", QUEUE, name)
    options = ["--set", "metrics=127.0.0.1:0", "--set", "poll_interval=0.1"]
    reader = line.processes.start("reader", [*argv, *options, "--set", "metrics_max_lag=0.5"])
    url = base(reader, line)
    root.database.execute("select pgq.insert_event(%s, 'x', 'secret')", QUEUE)
    line.tick()
    series = 'londiste_consumer_batches_total{daemon="consumer"}'
    text = line.wait(
        lambda: (found := get(f"{url}/metrics")[1]) and value(found, series) >= 1 and found,
        "a batch",
    )
    assert value(text, 'londiste_consumer_events_total{daemon="consumer"}') == 1
    assert value(text, 'londiste_consumer_batch_duration_seconds_count{daemon="consumer"}') >= 1
    place = f'consumer="reader",database="{root.database.name}@'
    assert f"londiste_queue_events_pending{{{place}" in text
    assert 'consumer="another"' not in text
    assert "secret" not in text
    line.wait(lambda: get(f"{url}/readyz") == (200, "ok\n"), "readiness")

    reader.send(signal.SIGSTOP)
    root.database.execute("select pgq.insert_event(%s, 'x', 'y')", QUEUE)
    line.tick()
    reader.send(signal.SIGCONT)
    line.wait(lambda: get(f"{url}/readyz") == (200, "ok\n"), "readiness again")
    consumers.pause_consumer(root.database.connect(), QUEUE, "reader")
    paused = (503, "consumer reader: paused\n")
    line.wait(lambda: get(f"{url}/readyz") == paused, "that it is paused")
    assert reader.stop() == 0


LAKE = {"lake_tables": "public.t", "lake_mode": "append", "lake_start": "latest"}
FILES = {"table_filter": "public.t", "handler": "yearly_batch", "row_mode": "plain"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "path", "more"),
    [
        pytest.param(
            ("lake", "run"),
            "lake_path",
            {**LAKE, "lake_period": "600"},
            marks=pytest.mark.slow,
        ),
        (("dispatch",), "target_path", {**FILES, "poll_interval": "600"}),
    ],
    ids=["lake", "dispatch"],
)
def test_a_lake_and_a_dispatcher_into_files_show_their_consumers(
    line: Line, tmp_path: Path, words: tuple[str, ...], path: str, more: dict[str, str]
) -> None:
    root = line.node("root", NodeType.ROOT, schema=TABLE)
    line.add(root, "t")
    root.database.execute("select pgq.register_consumer(%s, 'archived')", QUEUE)
    given = {"db": root.database.dsn, "queue_name": QUEUE, "job_name": "archive", **more}
    given |= {path: str(tmp_path / "files"), "metrics": "127.0.0.1:0", "metrics_max_lag": "0.5"}
    options = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
    argv = [sys.executable, "-m", "londiste", *options, *words]
    daemon = line.processes.start("archive", argv)
    url = base(daemon, line)
    line.wait(lambda: get(f"{url}/readyz") == (200, "ok\n"), "readiness")
    # The first epoch is the begin of the directory; no later one comes in the time of this test.
    epochs = f'londiste_consumer_batches_total{{daemon="{words[0]}"}}'
    line.wait(lambda: value(get(f"{url}/metrics")[1], epochs) == 1, "the first epoch")
    root.database.execute("insert into t values (1, 'secret')")
    line.tick()
    late = "consumer archive.public.t: behind by"
    code, said = line.wait(
        lambda: (found := get(f"{url}/readyz"))[1].startswith(late) and found, "that it is late"
    )
    assert code == 503 and said.endswith("allowed: 0s\n")
    assert get(f"{url}/healthz") == (200, "ok\n")
    text = get(f"{url}/metrics")[1]
    pending = re.findall(r'londiste_queue_events_pending\{consumer="([^"]*)"', text)
    assert pending == ["archive.public.t"]
    assert "secret" not in text
    assert daemon.stop() == 0


@pytest.mark.slow
def test_run_shows_the_histograms_of_its_children(line: Line, one_file: OneFile) -> None:
    more = '\n[tables]\ninclude = ["public.*"]\n[worker]\nengine = "local"\npoll_interval = 0.1\n'
    job = '[dispatchers.spread]\nnode = "n1"\ntable_filter = "idle.t"\nconsumer_name = "spread"\n'
    one_file.write({"n1": "root", "n2": "leaf of n1"}, f"{more}{job}")
    root, leaf = one_file.db["n1"], one_file.db["n2"]
    root.execute("create table t (id int primary key, v text)")
    root.execute("create schema idle; create table idle.t (id int primary key)")
    assert one_file("apply").code == 0
    assert one_file("--node", "spread", "dispatch", "--register").code == 0
    argv = [sys.executable, "-m", "londiste", "-c", str(one_file.path)]
    run = line.processes.start("run", [*argv, "--set", "metrics=127.0.0.1:0", "run"])
    url = base(run, line)
    root.execute("insert into t values (1, 'a')")
    line.wait(lambda: leaf.value("select count(*) from t") == 1, "the row", 60)
    names = ("worker_batches_total", "consumer_batches_total", "ticks_total")
    daemons = ("worker n2", "dispatch spread", "ticker")
    series = [f'londiste_{a}{{daemon="{b}"}}' for a, b in zip(names, daemons, strict=True)]

    def counted() -> list[float]:
        text = get(f"{url}/metrics")[1]
        return [value(text, one) for one in series]

    line.wait(lambda: min(counted()) >= 1, "counters of all")
    before = counted()
    (pid,) = re.findall(r"worker n2 started with process id (\d+)", run.said())
    os.kill(int(pid), signal.SIGKILL)
    root.execute("insert into t values (2, 'b')")
    line.wait(lambda: leaf.value("select count(*) from t") == 2, "the next row", 60)
    line.wait(lambda: counted()[0] > before[0], "a counter that continues")
    text = get(f"{url}/metrics")[1]
    buckets = re.findall(
        r'worker_batch_duration_seconds_bucket\{daemon="worker n2",le="([^"]*)"', text
    )
    assert len(buckets) == 15
    assert value(text, 'londiste_run_failures_total{daemon="worker n2"}') == 1
    assert run.said().count("metrics at ") == 1
    assert run.stop() == 0


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
