"""Status queries every node and includes nodes that do not answer."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from londiste.cascade import sqlapi as nodes
from londiste.cascade import topology
from londiste.cascade.model import NodeType
from londiste.db.names import TableName
from londiste.errors import StateError
from londiste.monitor import status
from londiste.replication import sqlapi as tables
from tests.fixtures.cascade import QUEUE, CommandLine, Node, Nodes
from tests.fixtures.line import Line
from tests.support.hints import plain
from tests.support.programs import forked
from tests.support.waiting import readable


def test_every_node_is_shown_with_its_tables_and_position(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    root.db.execute("create table a (id int primary key); create table b (id int primary key)")
    londiste(root.db, "add-table", "--all")
    londiste(leaf.db, "add-table", "a", "--create", "--expect-sync")
    londiste(leaf.db, "add-table", "b", "--create")
    with leaf.connect() as conn:
        tables.global_add_table(conn, QUEUE, TableName("public", "c"))
        nodes.set_consumer_error(conn, QUEUE, leaf.worker, "first line\nsecond line")
    tick = root.tick()
    root.db.execute("update pgq.tick set tick_time = now() - interval '90 s' where tick_id = 1")
    found = status.collect(leaf.dsn, QUEUE)
    assert found.local == "leaf"
    top, below = found.node("root"), found.node("leaf")
    assert (str(top.tables), str(below.tables)) == ("2/0/0", "1/1/1")
    assert (top.tick, below.tick) == (tick, 1)
    assert top.lag is not None
    assert top.lag < 60
    assert below.lag is not None
    assert 90 <= below.lag < 150
    assert below.errors == ((leaf.worker, "first line"),)
    shown = londiste(root.db, "status")
    assert shown.code == 0
    assert "Queue: q   Local node: root" in shown.out
    assert "  +--: leaf (leaf)" in shown.out
    assert "Tables: 1/1/1" in shown.out
    assert "NOT UPTODATE" in shown.out
    assert f"ERR: {leaf.worker}: first line" in shown.out
    assert len(londiste(root.db, "status", "--compact").out.splitlines()) == 2
    names = [node["name"] for node in londiste(root.db, "status", "--json").json["nodes"]]
    assert names == ["leaf", "root"]


def test_copies_that_are_paused_are_a_warning_and_checked_tables_name_it(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    root.db.execute("create table a (id int primary key); create table b (id int primary key)")
    londiste(root.db, "add-table", "--all")
    londiste(leaf.db, "add-table", "--all", "--create", "--expect-sync")
    assert "COPIES PAUSED" not in londiste(leaf.db, "status").out
    assert londiste(leaf.db, "copy", "pause").code == 0
    # No table waits for a copy.
    assert not found_kinds(londiste(root.db, "status", "--check", "--json").json, "copies-paused")
    assert londiste(leaf.db, "resync", "a").code == 0
    checked = londiste(root.db, "status", "--check", "--json")
    (paused,) = found_kinds(checked.json, "copies-paused")
    assert paused["severity"] == "warning"
    assert paused["what"] == "node leaf: copies are paused; tables not in sync: 1"
    assert "Tables: 1/1/0" in londiste(root.db, "status").out
    assert "COPIES PAUSED" in londiste(root.db, "status").out
    answer = londiste(leaf.db, "check", "--json").json
    (waits,) = found_kinds(answer, "state")
    assert (waits["why"], waits["do"].endswith("londiste copy resume")) == (
        "copies are paused",
        True,
    )
    assert londiste(leaf.db, "copy", "resume").code == 0
    assert not found_kinds(londiste(root.db, "status", "--check", "--json").json, "copies-paused")
    (waits,) = found_kinds(londiste(leaf.db, "check", "--json").json, "state")
    assert waits["why"] == "its copy has not begun"


def found_kinds(document: Any, kind: str) -> list[dict[str, Any]]:
    found = document["findings"] if isinstance(document, dict) else document
    return [one for one in found if one["kind"] == kind]


def test_tables_that_are_no_longer_captured_are_shown(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    for name in "abcde":
        root.db.execute(f"create table {name} (id int primary key)")
    londiste(root.db, "add-table", "a", "b", "c", "d")
    londiste(root.db, "add-table", "e", "--no-triggers")
    assert status.collect(leaf.dsn, QUEUE).node("root").errors == ()
    root.db.execute("drop table a; create table a (id int primary key)")
    root.db.execute("alter table b rename to bb")
    root.db.execute("alter table c disable trigger user")
    check = ": londiste check --all-nodes shows what to do"
    end = f": its changes are not replicated{check}"
    assert status.collect(leaf.dsn, QUEUE).node("root").errors == (
        ("capture", f"table public.b was renamed to public.bb, events carry the old name{check}"),
        ("capture", f"table public.a has lost its capture trigger{end}"),
        ("capture", f"table public.c has its capture trigger disabled{end}"),
    )
    assert "ERR: capture: table public.a has lost" in londiste(leaf.db, "status").out
    # removed and added again, all is well
    for command in ("remove-table", "add-table"):
        assert londiste(root.db, command, "a").code == 0
    assert len(status.collect(root.dsn, QUEUE).node("root").errors) == 2


def test_lag_does_not_depend_on_the_servers_interval_style(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    for style in ("iso_8601", "sql_standard", "postgres_verbose"):
        for node in (root, leaf):
            node.db.execute(f"alter database {node.db.name} set IntervalStyle = '{style}'")
        found = status.collect(root.dsn, QUEUE)
        assert all(n.lag is not None and 0 <= n.lag < 60 for n in found.nodes)


def test_a_node_that_does_not_answer_is_shown_as_dead(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    leaf = nodes_of.below(branch, "leaf")
    root.tick()
    with root.connect() as conn:
        nodes.register_location(conn, QUEUE, "branch", "host=/nowhere dbname=gone")
    found = status.collect(root.dsn, QUEUE)
    assert found.node("branch").type == "dead"
    assert found.node("branch").unreachable
    assert found.node("leaf").tick == 1
    answer = londiste(root.db, "status")
    assert answer.code == 0
    assert "branch (dead)" in answer.out
    assert "leaf (leaf)" in answer.out
    # Without the root nobody's lag is known, and the rest is shown all the same.
    with leaf.connect() as conn:
        nodes.register_location(conn, QUEUE, "root", "host=/nowhere dbname=gone")
    shown = londiste(leaf.db, "status")
    assert "root (dead)" in shown.out
    assert "Lag: ?" in shown.out


def test_a_node_with_the_schemas_of_another_version_is_not_dead(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    for node in (root, leaf):
        # What the original does not have.
        node.db.execute(
            "drop function londiste.lost_captures(text); drop table londiste.large_batch cascade;"
            "drop function londiste.get_follow_errors(text)"
        )
    tick = root.tick()
    found = status.collect(leaf.dsn, QUEUE)
    assert (found.node("root").type, found.node("leaf").type) == ("root", "leaf")
    assert found.node("root").tick == tick
    assert str(found.node("root").tables) == "0/0/0"
    shown = londiste(leaf.db, "status")
    assert "dead" not in shown.out
    assert len(re.findall(r"SQL: 4\.\S+, lacks functions of this program", shown.out)) == 2
    # As of 4.0.0: the findings of the queue need what it lacks.
    for node in (root, leaf):
        node.db.execute("drop function pgq._is_at_home() cascade")
        node.db.execute("update pgq.installed_file set version = '4.0.0'")
    for call in (["status"], ["status", "--check"]):
        shown = londiste(leaf.db, *call)
        assert "dead" not in shown.out and "_is_at_home" not in shown.out + shown.err, shown
    shown = londiste(leaf.db, "status")
    assert (
        plain(shown.out).count("SQL: 4.0.0, lacks functions of this program: londiste install") == 2
    )
    # Without the schema of tables a node is a node.
    root.db.execute("drop schema londiste cascade")
    found = status.collect(leaf.dsn, QUEUE)
    assert (found.node("root").type, found.node("root").tables) == ("root", None)


def test_a_location_that_leads_to_another_node_is_an_error_of_that_node(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    with psycopg.connect(root.dsn, autocommit=True) as conn:
        conn.execute("update pgq_node.node_location set node_location = %s", [leaf.dsn])
    found = status.collect(root.dsn, QUEUE)
    assert found.node("leaf").tick == 1
    # The local node is asked by the connection string of the settings.
    assert found.node("root").tick is not None
    with leaf.connect() as conn:
        nodes.register_location(conn, QUEUE, "root", leaf.dsn)
    assert "leads to node leaf" in status.collect(leaf.dsn, QUEUE).node("root").unreachable


def test_settings_of_the_server_change_nothing(nodes_of: Nodes, londiste: CommandLine) -> None:
    root = nodes_of.root()
    # New nodes cannot have such names, older ones have them.
    leaf = Node("le'af\\x", nodes_of.below(root, "leaf").db)
    for node in (root, leaf):
        node.db.execute("select pgq_node.rename_node(%s, 'leaf', %s)", QUEUE, leaf.name)
    root.db.execute(
        "select * from pgq_node.begin_operation"
        "('q', null, 'switchover', 'root', %s, 'me', 'x', false)",
        leaf.name,
    )

    def seen() -> Any:
        found = londiste(leaf.db, "status", "--json").json
        for node in found["nodes"]:
            del node["lag"]
            if node["behind"] is not None:
                del node["behind"]["seconds"]
            node["held"] = None if node["held"] is None else node["held"]["tick"]
        return found

    before = seen()
    for node in (root, leaf):
        for name, value in {
            "datestyle": "SQL, DMY",
            "intervalstyle": "sql_standard",
            "timezone": "Asia/Kathmandu",
            "standard_conforming_strings": "off",
            "extra_float_digits": "-3",
            "search_path": "nowhere",
        }.items():
            node.db.execute(f"alter database {node.db.name} set {name} = '{value}'")
    after = seen()
    began = [found["nodes"][1]["operation"].pop("started_at") for found in (before, after)]
    assert datetime.fromisoformat(began[0]) == datetime.fromisoformat(began[1])
    for found in (before, after):
        # It names the time in the zone of the reader.
        del found["nodes"][1]["operation"]["what"]
    assert before == after


def test_what_is_under_way_is_shown_with_what_finishes_it(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root("a")
    begin = "select * from pgq_node.begin_operation('q', null, %s, 'a', 'b', 'me', 'x', false)"
    finish = {
        "change-provider": "londiste change-provider --node a --provider b",
        "switchover": "londiste switchover --to b",
        "takeover": "londiste takeover a --node b --failover",
        "resurrect": "londiste resurrect --node a",
        "move-consumer": "londiste change-provider --consumer a --provider b --node a",
        "drop-node": "londiste drop-node a",
    }
    for kind, command in finish.items():
        root.db.execute(begin, kind)
        shown = londiste(root.db, "status").out
        assert re.search(r"finish it: londiste -c \S+\.toml ", shown)
        assert f"finish it: {command}\n" in plain(shown)
        assert "started by me at" in shown
        root.db.execute("delete from pgq_node.operation")
    assert "Watermarks: local 1, global 1" in londiste(root.db, "status").out


def test_a_server_that_takes_connections_and_says_nothing_is_shown_as_dead(
    nodes_of: Nodes, londiste: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topology, "CONNECT_SECONDS", 2)
    root = nodes_of.root()
    with socket.create_server(("127.0.0.1", 0)) as silent, root.connect() as conn:
        for name in ("mute", "mute2"):
            location = f"host=127.0.0.1 port={silent.getsockname()[1]} dbname=x"
            nodes.register_location(conn, QUEUE, name, location)
        conn.commit()
        shown = londiste(root.db, "status").out
    assert shown.count("(dead)") == 2
    assert "root (root)" in shown


def _some(file: int) -> bytes:
    """What a program has written, b"" at its end."""
    with contextlib.suppress(OSError):
        return os.read(file, 4096)
    return b""


class Watching:
    """``status --watch`` in a process of its own."""

    def __init__(self, dsn: str, directory: Path, *, terminal: bool, args: Sequence[str] = ()):
        config = directory / "watch.toml"
        config.write_text(f'[londiste]\ndb = "{dsn}"\nqueue_name = "{QUEUE}"\njob_name = "w"\n')
        self.inside, outside = pty.openpty() if terminal else os.pipe()
        argv = [sys.executable, "-m", "londiste", "-c", str(config), "status", "--watch", "0.1"]
        environment = {**os.environ, "TERM": "xterm"}
        self.said = tempfile.TemporaryFile()  # noqa: SIM115 -- closed in ended()
        self.process: forked.Started
        if terminal:
            # A fork has no terminal to read from.
            self.process = subprocess.Popen(
                [*argv, *args], stdin=outside, stdout=outside, stderr=self.said, env=environment
            )
            os.close(outside)
            return
        with os.fdopen(outside, "wb") as output:
            self.process = forked.start(
                [*argv, *args], env=environment, output=output, errors=self.said
            )

    def read_until(self, pattern: bytes) -> bytes:
        """What it prints, until the pattern is found in it."""
        seen = b""
        while not re.search(pattern, seen, re.DOTALL):
            ready = readable([self.inside], 60)
            assert ready, seen
            seen += os.read(self.inside, 4096)
        return seen

    def ended(self) -> int:
        """Its exit code; nothing on stderr."""
        # Nobody reads on, but it may still write.
        while readable([self.inside], 60) and _some(self.inside):
            pass
        os.close(self.inside)
        code = self.process.wait(60)
        with self.said:
            self.said.seek(0)
            assert self.said.read() == b""
        return code


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Callable[..., Watching]]:
    """Starts ``status --watch``; none is left behind."""
    started: list[Watching] = []

    def start(dsn: str, *, terminal: bool, args: Sequence[str] = ()) -> Watching:
        started.append(Watching(dsn, tmp_path, terminal=terminal, args=args))
        return started[-1]

    yield start
    for watching in started:
        watching.process.kill()
        watching.process.wait()


def test_status_is_shown_again_and_again_until_somebody_ends_it(
    nodes_of: Nodes, watch: Callable[..., Watching]
) -> None:
    root = nodes_of.root()
    tick = root.tick()
    plain = watch(root.dsn, terminal=False)
    documents = watch(root.dsn, terminal=False, args=["--json"])
    shown = plain.read_until(rb"root \(root\).*root \(root\)")
    assert b"\x1b" not in shown
    lines = documents.read_until(rb"\n.*\n").splitlines()
    assert json.loads(lines[0])["local"] == "root" == json.loads(lines[1])["local"]
    for watching in (plain, documents):
        watching.process.send_signal(signal.SIGINT)
        assert watching.ended() == 0
    live = watch(root.dsn, terminal=True)
    live.read_until(rb"Tick: %d.*q quits" % tick)
    live.read_until(rb"Tick: %d" % root.tick())
    os.write(live.inside, b"xq")
    with contextlib.suppress(OSError):
        # What it says at its end: the screen of before.
        live.read_until(b"\x1b\\[\\?1049l")
    assert live.ended() == 0


def test_a_root_that_waits_for_ticks_of_another_database_is_critical(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    root.db.execute(f"select pgq.set_queue_config('{QUEUE}', 'external_ticker', 'true')")
    shown = londiste(root.db, "status", "--check")
    assert shown.code == 2 and "external_ticker is set on the root" in shown.out
    assert londiste(root.db, "queue", "config", QUEUE, "external_ticker=no").code == 0
    assert "external_ticker" not in londiste(root.db, "status", "--check").out


def test_nobody_is_advised_to_open_a_closed_root_and_nobody_can(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    root.db.execute(f"select pgq_node.fence_root('{QUEUE}')")
    shown = londiste(root.db, "status", "--check").out
    assert "this root is closed" in shown and "external_ticker" not in shown
    for parameter in ("external_ticker", "disable_insert"):
        for node, hint in ((root, "londiste resurrect --node root"), (branch, "switchover branch")):
            refused = londiste(node.db, "queue", "config", QUEUE, f"{parameter}=no")
            assert refused.code == StateError("").exit_code, str(refused)
            assert f"{parameter} stays" in refused.err and hint in refused.err
    assert root.db.value("select queue_disable_insert from pgq.queue")
    assert londiste(root.db, "queue", "config", QUEUE, "ticker_max_lag=2s").code == 0
    # A queue that does not exist yet is nobody's.
    assert londiste(root.db, "queue", "create", "new", "--set", "disable_insert=no").code == 0


def test_a_tick_of_the_same_number_and_another_time_is_another_tick(line: Line) -> None:
    root = line.node("root", NodeType.ROOT)
    branch = line.node("branch", NodeType.BRANCH, root)
    leaf = line.node("leaf", NodeType.LEAF, branch)
    last = line.tick()
    for node in (branch, leaf):
        line.once(node)
    before = json.loads(line.here(root, "status", "--json").out)["nodes"]
    assert [one["lag"] is not None for one in before] == [True, True, True]
    # As after a restore to an older state, and new ticks since.
    root.database.execute("update pgq.tick set tick_time = now() where tick_id = %s", last)
    after = json.loads(line.here(root, "status", "--json").out)["nodes"]
    found = {one["name"]: (one["tick"], one["lag"]) for one in after}
    assert (found["branch"], found["leaf"]) == ((last, None), (last, None))
    shown = line.here(root, "status", "--check")
    assert shown.code == 2
    assert f"node leaf: its tick {last} is no longer in the root's queue" in shown.out
