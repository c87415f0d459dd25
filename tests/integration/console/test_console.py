"""The console in a real Chromium: every page, live, by keyboard, at 360 px, light and dark."""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from londiste.console.facts import Fact, collect, collect_slow
from londiste.db.connection import session
from tests.fixtures.line import QUEUE, Line
from tests.integration.console.conftest import HOSTILE, Pair
from tests.support.suite.slow import first

pytest.importorskip("starlette", reason="needs the extra web")

Browse = Callable[..., Any]
PAGES = ("cascade", "tables", "copies", "queues", "failed", "drift", "moves", "changes")


def document(console: str, name: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{console}/api/v1/{name}", timeout=60) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found


def test_every_page_is_live_after_a_change(pair: Pair, console: str, browse: Browse) -> None:
    page = browse(console)
    assert page.title() == "Cascade · Londiste"
    page.get_by_text("No problems found.").wait_for()
    page.locator("#connection", has_text="live").wait_for()
    picture = page.locator("svg.cascade")
    assert picture.locator("g.node").count() == 2
    picture.locator("text.lag", has_text="idle").wait_for()
    row = (
        page.get_by_role("row")
        .filter(has_text="leaf_worker")
        .or_(page.get_by_role("row").filter(has_text="worker: alive"))
    )
    assert row.count() >= 1

    # The worker ends: the page says so without a reload.
    worker = pair.leaf.worker
    assert worker is not None
    worker.kill()
    page.locator(".finding.critical", has_text="NOT RUNNING").wait_for()
    page.locator("#state", has_text="critical").wait_for()
    pair.root.database.execute("insert into orders select generate_series(1, 50), 'secret-row'")
    picture.locator("text.lag", has_text=" ev, ").wait_for()
    assert document(console, "cascade")["state"] == "critical"
    pair.line.start(pair.leaf)
    page.get_by_text("No problems found.").wait_for()
    picture.locator("text.lag", has_text="idle").wait_for()
    assert "secret-row" not in page.content()

    page.get_by_role("link", name="Tables").click()
    cell = page.get_by_role("cell", name=f"public.{HOSTILE}", exact=False).first
    cell.wait_for()
    assert page.locator("script").count() == 1
    page.get_by_label("Find").fill("orders")
    page.get_by_role("button", name="Show").click()
    page.locator("[data-part=tables] tbody tr").first.wait_for()
    assert page.locator("[data-part=tables] tbody tr").count() == 2
    # A live page keeps its filter.
    page.locator("#connection", has_text="live").wait_for()
    assert page.locator("[data-part=tables] tbody tr").count() == 2

    page.get_by_role("link", name="Queues").click()
    page.get_by_role("cell", name="leaf_worker").wait_for()
    pair.root.database.execute("insert into orders select generate_series(101, 900), 'x'")
    # A line over time, once there are two points.
    page.locator(".chart .line").first.wait_for(state="attached")

    for name in PAGES:
        found = document(console, name)
        assert (found["version"], found["queue"], found["state"]) == (1, QUEUE, "ok")
        assert found["taken_at"].endswith("Z")
        assert found["error"] == ""
        assert found["command"].startswith("londiste ")
    rows = {(t["node"], t["table"]): t for t in document(console, "tables")["tables"]}
    assert rows["leaf", "public.orders"]["state"] == "ok"
    assert ("root", f"public.{HOSTILE}") in rows
    consumers = document(console, "queues")["consumers"]
    assert "leaf_worker" in {one["consumer"] for one in consumers}


def test_what_a_node_does_not_show_is_unknown(pair: Pair) -> None:
    def unknown(dsn: str) -> frozenset[Fact]:
        with session(dsn, name="test", autocommit=True) as conn:
            return collect(
                conn, QUEUE, lambda t: collect_slow(conn, QUEUE, t, values=False), values=False
            ).unknown

    assert unknown(pair.root.database.dsn) == unknown(pair.leaf.database.dsn) == frozenset()
    assert unknown(pair.make_database().dsn) == frozenset(Fact) - {Fact.MOVE}


def test_pages_are_usable_by_keyboard(console: str, browse: Browse) -> None:
    page = browse(console)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    names = []
    page.goto(f"{console}/queues")
    for _ in range(11):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.textContent.trim()"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", names
    assert names[2:6] == ["Cascade", "Tables", "Copies", "Queues"]
    # A part with the focus is replaced, and keeps it.
    region = "document.activeElement.getAttribute('aria-label')"
    assert page.evaluate(region) == "Queues"
    page.evaluate("document.activeElement.firstElementChild.dataset.old = 'yes'")
    page.locator("[data-old]").wait_for(state="detached")
    assert page.evaluate(region) == "Queues"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/changes")


@pytest.mark.parametrize("scheme", first(["dark", "light"]))
def test_pages_fit_a_phone_light_and_dark(console: str, browse: Browse, scheme: str) -> None:
    page = browse(console, viewport={"width": 360, "height": 740}, color_scheme=scheme)
    for name in PAGES:
        page.goto(f"{console}/{name}")
        page.locator("h1").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, name
        back, text = page.evaluate(
            "[getComputedStyle(document.body).backgroundColor,"
            " getComputedStyle(document.body).color]"
        )
        assert (luminance(back) > luminance(text)) is (scheme == "light")
        for selector in ("h1", ".state", "footer", "nav a"):
            colour = page.evaluate(
                "s => getComputedStyle(document.querySelector(s)).color", selector
            )
            assert contrast(colour, back) >= 4.5, (name, selector)


def luminance(colour: str) -> float:
    """Relative luminance of ``rgb(…)``, as the accessibility guidelines define it."""
    parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_daemon_ends_at_once_while_pages_are_open(
    pair: Pair, browse: Browse, line: Line
) -> None:
    url, process = pair.console("other")
    with urllib.request.urlopen(f"{url}/live/cascade", timeout=60) as stream:
        assert stream.readline() == b"event: page\n"
        process.send(signal.SIGTERM)
        assert process.wait(10) == 0
    assert "Traceback" not in process.said()
    assert f"started, settings {pair.line.directory / 'other.toml'}, " in process.said()


def test_wrong_addresses_are_refused(pair: Pair) -> None:
    taken = pair.console("taken")[0].removeprefix("http://")
    for listen, words in (
        (taken, "cannot listen on"),
        ("0.0.0.0:0", "there is no login"),
        ("nonsense", "not an address"),
    ):
        done = pair.line.run(pair.leaf, "web", env={"LONDISTE_LISTEN": listen})
        assert done.code != 0
        assert done.err.startswith("error: "), done.err
        assert words in done.err
        assert "hint: " in done.err
        assert "Traceback" not in done.err
