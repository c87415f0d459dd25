"""Pages from values: escaped, complete, with pictures that fit; and the answers around them."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from pydantic import TypeAdapter

from londiste.compare.audit import Coverage
from londiste.console import picture, server
from londiste.console import watch as watching
from londiste.console.actions import ACTIONS
from londiste.console.app import MOST_STREAMS, PAGES, Console
from londiste.console.collect import Snapshot, without_values
from londiste.console.facts import Estimate, Fact, NodeFacts, SlowFacts, masked_text, without_errors
from londiste.console.history import History
from londiste.console.pages import cascade, tables
from londiste.console.pages.common import Page, Request
from londiste.console.render import Renderer, Visitor, cell
from londiste.console.security import HEADERS
from londiste.console.watch import View, Watch
from londiste.copy.sqlapi.control import Control
from londiste.copy.status import CopyStatus, TableStatus
from londiste.db.names import TableName
from londiste.errors import NodeUnreachable
from londiste.monitor.lag import Behind
from londiste.monitor.queues.model import ConsumerFacts, MonitorFacts, QueueFacts
from londiste.monitor.status import NodeStatus, Status, TableCounts
from londiste.replication.model import ReplicatedTable

HOSTILE = "<script>alert(1)</script>\"'&{{7*7}}"
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def node(name: str, provider: str | None = None, **facts: object) -> NodeStatus:
    kind = "leaf" if provider else "root"
    return NodeStatus(name, kind, provider=provider, tick=7, **facts)  # type: ignore[arg-type]


def snapshot(text: str = HOSTILE) -> Snapshot:
    """A cascade in which every name is ``text``."""
    name = TableName("public", text)
    table = ReplicatedTable(name, name, True, "ok", attrs={"handler": text, "where": text})
    waiting = ReplicatedTable(TableName("public", "new"), name, True, None)
    facts = NodeFacts(
        text,
        (table, waiting),
        MonitorFacts(
            text,
            (QueueFacts(text, last_id=1),),
            (ConsumerFacts(text, text, ended=text, pending=3, dead_letters=2),),
        ),
        SlowFacts({name: Estimate(12, 4096)}, (Coverage(str(name), 1, 1, AT, 12, 0, ()),)),
    )
    nodes = (
        node("root", tables=TableCounts(2, 0, 0), attrs={text: text}),
        node(
            text,
            "root",
            behind=Behind(2, 5, 7.0),
            errors=(("w", f'invalid "{text}"'),),
            local_watermark=5,
        ),
        node("gone", "root", unreachable=text),
    )
    return Snapshot(AT, Status(text, "root", nodes), {"root": facts, text: facts})


def request(found: Snapshot | None, error: str = "", **query: str) -> Request:
    history = History(1.0)
    if found is not None:
        history.add(found)
    return Request(View(1, found, error), history, query)


@pytest.mark.parametrize("entry", PAGES, ids=lambda e: e.name)
def test_a_hostile_name_stays_text(entry: object) -> None:
    entry = next(one for one in PAGES if one is entry)
    asked = request(snapshot())
    page = entry.build(asked)
    made = Renderer([(entry.name, entry.title)], 3600.0).page(
        entry.name, entry.title, page, {"find": HOSTILE}, Visitor(HOSTILE, HOSTILE, actions=True)
    )
    assert "<script>alert" not in made
    assert "&lt;script&gt;alert" in made
    # The policy of the console knows neither scripts nor styles in a page.
    assert re.findall(r"<script(?![^>]*src=)|\son\w+=|style=|javascript:", made) == []
    document = TypeAdapter(entry.kind).dump_json(page)
    known = json.loads(document)
    assert known["version"] == 1
    assert known["taken_at"] == "2026-01-02T03:04:05Z"
    assert TypeAdapter(entry.kind).validate_json(document) == page


@pytest.mark.parametrize("entry", PAGES, ids=lambda e: e.name)
def test_a_name_cannot_pose_as_another_one(entry: object) -> None:
    entry = next(one for one in PAGES if one is entry)
    page = entry.build(request(snapshot("rtl\u202eelbat\x07")))
    menu = [(entry.name, entry.title)]
    made = Renderer(menu, 3600.0).page(entry.name, entry.title, page, {}, Visitor(actions=True))
    assert "rtl\\u202eelbat\\x07" in made
    assert [c for c in made if not c.isprintable() and c != "\n"] == []
    # Programs get the name as it is.
    assert "rtl\u202eelbat\\u0007" in TypeAdapter(entry.kind).dump_json(page).decode()


def test_a_form_sends_the_name_as_it_is() -> None:
    made = Renderer([], 3600.0).page_of(
        "action",
        action=ACTIONS["resync"],
        words={"node": "leaf", "table": 'rtl\u202e"\n'},
        steps=["copy rtl\u202e"],
        **dict.fromkeys(("title", "token", "command", "error"), ""),
    )
    # A field would lose the end of the line: browsers send another one.
    assert 'action="/action/resync?node=leaf&amp;table=rtl%E2%80%AE%22%0A"' in made
    assert "copy rtl\\u202e" in made


@pytest.mark.parametrize("entry", PAGES, ids=lambda e: e.name)
def test_a_page_is_there_before_a_node_has_answered(entry: object) -> None:
    entry = next(one for one in PAGES if one is entry)
    page = entry.build(request(None, "host x: does not answer"))
    assert page.state == "unknown"
    made = Renderer([], 3600.0).page(entry.name, entry.title, page, {}, Visitor())
    assert "host x: does not answer" in made


def test_the_cascade_names_states_and_lag() -> None:
    page = cascade.build(request(snapshot("leaf")))
    root, leaf, gone = page.nodes
    assert (root.state, root.lag_events, root.lag, root.in_sync) == ("ok", None, "", 2)
    assert (leaf.state, leaf.lag_events, leaf.lag_seconds) == ("ok", 5, 7.0)
    assert (gone.state, gone.severity) == ("unreachable", "critical")
    assert page.state == "critical"
    assert [one.value for one in leaf.history] == [7.0]
    # What is known is older than the last attempt.
    assert cascade.build(request(snapshot(), "no answer")).state == "unknown"


@pytest.mark.parametrize("entry", PAGES, ids=lambda e: e.name)
def test_what_is_not_known_is_not_shown_as_none(entry: object) -> None:
    entry = next(one for one in PAGES if one is entry)
    known = NodeFacts("r", (), MonitorFacts("r"), SlowFacts({}), CopyStatus(Control(), []))
    silent = node("leaf", "root", unreachable="host x: does not answer")
    old = NodeFacts("l", unknown=frozenset(Fact))
    renderer = Renderer([(entry.name, entry.title)], 1.0)
    none = [
        *("All tables are in sync.", "No failed events.", "No change of the cascade is under way."),
        *("is recorded", "no table is compared yet", "No problems found.", ": none<", "matches"),
    ]

    def made(error: str, leaf: NodeStatus | None, facts: NodeFacts | None) -> tuple[Page, str]:
        found = (node("root"), leaf) if leaf else (node("root"),)
        nodes = {"root": known} | ({"leaf": facts} if facts else {})
        page = entry.build(request(Snapshot(AT, Status("q", "root", found), nodes), error))
        return page, renderer.page(entry.name, entry.title, page, {}, Visitor())

    page, text = made("", None, None)
    assert page.unknown_nodes == ()
    assert any(words in text for words in none) or entry.name == "cascade"
    cases = [(silent, None), (silent, old), (node("leaf", "root"), None)]
    # The page of the cascade shows the status only.
    for leaf, facts in cases[: 2 if entry.name == "cascade" else 3]:
        page, text = made("", leaf, facts)
        (unknown,) = page.unknown_nodes
        assert unknown.node == "leaf"
        assert f"Node <strong>leaf</strong> {unknown.why}" in text
        assert ("does not answer: host x" in unknown.why) is (leaf is silent)
        assert not [words for words in none if words in text]
    page, text = made("", node("leaf", "root"), old)
    if entry.name == "failed":
        assert [one.why for one in page.unknown_nodes] == ["does not show failed events"]
    assert bool(page.unknown_nodes) is (entry.name != "cascade")
    # Of the last facts nobody knows whether they are still true.
    assert not [words for words in none if words in made("host x: gone", None, None)[1]]


def test_tables_are_found_by_name_state_and_node() -> None:
    page = tables.build(request(snapshot("leaf")))
    assert [(t.node, t.state) for t in page.tables] == [
        ("root", "ok"),
        ("root", "waits for its copy"),
        ("leaf", "ok"),
        ("leaf", "waits for its copy"),
    ]
    first = page.tables[0]
    assert (first.rows, first.bytes, first.verified_at, first.differing) == (12, 4096, AT, 0)
    assert len(tables.build(request(snapshot("leaf"), node="leaf")).tables) == 2
    assert [t.table for t in tables.build(request(snapshot("leaf"), find="NEW")).tables] == [
        "public.new",
        "public.new",
    ]
    assert tables.build(request(snapshot("leaf"), find="none")).tables == ()


def test_values_of_rows_are_not_in_texts() -> None:
    secret = "event 7: key (id, name) = (12, secret), value \"secret\" of 'secret'"
    assert "secret" not in masked_text(secret)
    for value in ('{"name": "secret"}', 'a"secret"b', 'one\nsecret "', "it''s 'secret'"):
        assert "secret" not in masked_text(f'invalid input syntax for type integer: "{value}"')
        assert "secret" not in masked_text(f"event 7: value '{value}' of v")
    for quoted in ("»secret«", "« secret »", "„secret”", "「secret」"):
        assert "secret" not in masked_text(f"ungültig: {quoted}")
    assert masked_text("Failing row contains (1, secret).") == "Failing row contains (…)."
    assert masked_text("Key (id)=(secret) exists") == "Key (id)=(…) exists"
    assert "key (id, name) = (…)" in masked_text(secret)
    status = Status("q", "n", (node("n", errors=(("w", secret),)),))
    assert "secret" not in repr(without_values(status))
    copies = CopyStatus(Control(), [TableStatus("public.t", None, waits=secret, error=secret)])
    assert "secret" not in repr(without_errors(copies))


def test_nodes_do_not_overlap_and_edges_carry_the_lag() -> None:
    rows = cascade.build(request(snapshot("leaf"))).nodes
    drawn = picture.tree(rows)
    assert len(drawn.boxes) == 3
    assert len({(box.x, box.y) for box in drawn.boxes}) == 3
    assert max(box.x for box in drawn.boxes) + picture.WIDTH == drawn.width
    assert [edge.text for edge in drawn.edges] == ["5 ev, 7 s", "no answer"]
    # A circle, which a failed switchover may leave, ends.
    circle = (
        node("a", "b", behind=Behind(0, 0, 0.0)),
        node("b", "a", behind=Behind(0, 0, 0.0)),
    )
    found = Snapshot(AT, Status("q", "a", circle), {})
    assert len(picture.tree(cascade.build(request(found)).nodes).boxes) == 2
    assert picture.tree(()).boxes == ()


def test_a_chart_fits_its_frame() -> None:
    points = [picture.Point(ago, value) for ago, value in ((600, 0), (300, 30), (0, 15))]
    made = picture.chart(points, 3600.0)
    assert made is not None
    assert (made.top, made.newest) == (50.0, 15)
    assert made.path == "M0 60L150 24L300 42"
    assert picture.chart(points[:1], 3600.0) is None


def test_values_are_shown_with_their_units() -> None:
    shown = {
        ("bytes", 2048): "2 kB",
        ("lag_seconds", 125.0): "2m5s",
        ("apply_seconds", 0.25): "0.25s",
        ("read_per_second", 12.34): "12.3/s",
        ("bytes_per_second", 2048.0): "2 kB/s",
        ("rows", 1234567): "1,234,567",
        ("paused", True): "yes",
        ("state", "ok"): "ok",
        ("state", "halted"): "<mark>halted</mark>",
        ("state", "<b>"): "<mark>&lt;b&gt;</mark>",
        ("daemons", ("a<", "b")): "a&lt;<br>b",
    }
    assert {key: str(cell(key[1], key[0])) for key in shown} == shown


@dataclass
class Answers:
    """What a collection gives: a snapshot, or an error; ``count`` of them."""

    found: Snapshot | None
    count: int = 0

    def __call__(self) -> Snapshot:
        self.count += 1
        if self.found is None:
            raise NodeUnreachable("host x: does not answer")
        return self.found


@pytest.fixture
def answers() -> Answers:
    return Answers(snapshot())


@pytest.fixture
def place(answers: Answers) -> Iterator[tuple[str, int]]:
    """A console that answers at this address."""
    watch = Watch(answers, History(1.0), refresh=0.2)
    listener = server.bound("127.0.0.1:0")
    where: tuple[str, int] = listener.getsockname()
    watch.start()
    with server.serving(Console(watch).app("https://console.example.org"), listener):
        yield where
        watch.stop()


def get(
    place: tuple[str, int], path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], str]:
    conn = http.client.HTTPConnection(*place, timeout=60)
    try:
        conn.request(method, path, headers=headers)
        answer = conn.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        conn.close()


def test_every_answer_has_the_headers_and_says_nothing_of_the_program(
    place: tuple[str, int],
) -> None:
    for path, status in (
        ("/", 307),
        ("/cascade", 200),
        ("/api/v1/cascade", 200),
        ("/static/live.js", 200),
        ("/healthz", 200),
        ("/<script>", 404),
        ("/api/v1/none", 404),
        ("/static/../app.py", 404),
        ("/static/%2e%2e/app.py", 404),
    ):
        code, headers, text = get(place, path)
        assert code == status, path
        lower = {name.lower(): value for name, value in headers.items()}
        for name, value in HEADERS.items():
            assert lower[name.lower()] == value, (path, name)
        assert "server" not in lower
        assert "<script>" not in text or lower["content-type"] == "application/json"
    assert json.loads(get(place, "/api/v1/none")[2])["version"] == 1


def test_a_foreign_host_and_other_methods_are_refused(place: tuple[str, int]) -> None:
    assert get(place, "/api/v1/cascade", Host="evil.example.org")[0] == 421
    assert get(place, "/live/cascade", Host="evil.example.org")[0] == 421
    assert "evil" not in get(place, "/", Host="evil.example.org")[2]
    assert get(place, "/healthz", Host="console.example.org")[0] == 200
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
        code, headers, _ = get(place, "/cascade", method)
        assert code == 405
        assert HEADERS["Content-Security-Policy"] in headers.values()
    assert get(place, "/cascade", "HEAD")[2] == ""


def test_a_stream_sends_a_page_with_each_collection(
    place: tuple[str, int], answers: Answers
) -> None:
    conn = http.client.HTTPConnection(*place, timeout=60)
    conn.request("GET", "/live/cascade")
    answer = conn.getresponse()
    assert answer.getheader("Content-Type", "").startswith("text/event-stream")

    def event() -> str:
        lines = iter(answer.readline, b"\n")
        return b"".join(lines).decode()

    first = event()
    assert first.startswith("event: page\ndata: ")
    answers.found = snapshot("other-name")
    while "other-name" not in event():
        pass
    conn.close()


def test_the_number_of_streams_is_bounded(place: tuple[str, int]) -> None:
    streams = [http.client.HTTPConnection(*place, timeout=60) for _ in range(MOST_STREAMS + 8)]
    for conn in streams:
        conn.connect()
    # All at once: none of them has begun when the last one asks.
    for conn in streams:
        conn.request("GET", "/live/cascade")
    answers = [conn.getresponse() for conn in streams]
    assert sorted(one.status for one in answers) == [200] * MOST_STREAMS + [503] * 8
    assert get(place, "/live/cascade")[0] == 503
    assert get(place, "/cascade")[0] == 200
    for conn in streams:
        conn.close()


def test_a_collection_that_does_not_end_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_LATE_SECONDS", 0.0)
    go_on, first = threading.Event(), iter([True])

    def collect() -> Snapshot:
        if not next(first, False):
            go_on.wait()
        return snapshot()

    watch = Watch(collect, History(1.0), refresh=0.01)
    watch.start()

    async def stale() -> View:
        async for view in watch.views():
            if view.error:
                return view
        raise AssertionError

    try:
        view = asyncio.run(asyncio.wait_for(stale(), 30))
        assert view.error.startswith("the facts are old: their collection has not ended since 20")
        assert view.snapshot is not None
        assert watch.view().error == view.error
        go_on.set()
        while watch.view().error:
            pass
    finally:
        go_on.set()
        watch.stop()


def test_clients_share_a_collection_and_an_error_is_said(
    place: tuple[str, int], answers: Answers
) -> None:
    threads = [threading.Thread(target=get, args=(place, "/cascade")) for _ in range(20)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert answers.count < 20
    answers.found = None
    while "host x: does not answer" not in (text := get(place, "/cascade")[2]):
        pass
    # The last known facts stay, with their time.
    assert "2026-01-02 03:04:05 UTC" in text
    assert json.loads(get(place, "/api/v1/cascade")[2])["state"] == "unknown"
