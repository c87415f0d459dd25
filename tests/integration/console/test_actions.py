"""Actions of the console in a real Chromium against real servers, and what they record."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra web")

from londiste.cascade.model import NodeType
from londiste.console.login import hashed
from tests.fixtures.line import QUEUE
from tests.integration.console.conftest import HOSTILE, PATTERN, Pair

Browse = Callable[..., Any]
SECOND = NodeType.BRANCH
PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def acting(pair: Pair) -> str:
    """The address of a console that allows actions."""
    users = json.dumps([f"anna:{hashed(PASSWORD)}"])
    return pair.console("acting", users=users, actions="true")[0]


#: The session of the first test that needed one, by the address of its console.
_sessions: dict[str, Any] = {}


def log_in(browse: Browse, url: str) -> Any:
    if url in _sessions:
        return browse(f"{url}/cascade", storage_state=_sessions[url])
    page = browse(f"{url}/login")
    page.get_by_label("Name").fill("anna")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/cascade")
    _sessions[url] = page.context.storage_state()
    return page


def logged(pair: Pair, action: str) -> tuple[str, str, str | None]:
    """Operator, outcome and reason of the newest action of a kind."""
    rows = pair.leaf.database.execute(
        "select operator, outcome, reason from londiste.get_action_log(%s, 50) where action = %s",
        QUEUE,
        action,
    )
    assert rows, action
    return rows[0]  # type: ignore[return-value]


def test_a_worker_is_paused_and_resumed(pair: Pair, acting: str, browse: Browse) -> None:
    page = browse(f"{acting}/cascade")
    page.wait_for_url("**/login?next=*")
    page.get_by_label("Name").fill("anna")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url("**/cascade")
    page.get_by_role("link", name="Pause").click()
    page.get_by_text("pause branch_worker after its current batch").wait_for()
    assert "londiste pause --node branch" in page.content()
    paused = "select paused from pgq_node.local_state where consumer_name = 'branch_worker'"
    assert pair.leaf.database.value(paused) is False
    page.get_by_label("Reason").fill("maintenance <b>")
    page.get_by_role("button", name="Pause the worker").click()
    page.get_by_text("branch_worker of node branch is paused").wait_for()
    assert pair.leaf.database.value(paused) is True
    operator, outcome, reason = logged(pair, "pause")
    assert operator.startswith("anna@127.0.0.1 (role ")
    assert (outcome, reason) == ("done", "maintenance <b>")

    page.get_by_role("link", name="Log of changes").first.click()
    page.get_by_role("cell", name="maintenance <b>").wait_for()
    page.goto(f"{acting}/cascade")
    page.get_by_role("link", name="Resume").click()
    page.get_by_role("button", name="Resume the worker").click()
    page.get_by_text("branch_worker of node branch is resumed").wait_for()
    assert pair.leaf.database.value(paused) is False


def test_a_failed_event_is_shown_without_values_and_skipped(
    pair: Pair, acting: str, browse: Browse
) -> None:
    pair.leaf.database.execute(
        "set session_replication_role = replica; insert into orders values (7, 'local-secret')"
    )
    pair.root.database.execute("insert into orders values (7, 'secret-row')")
    pair.root.database.execute("insert into orders values (8, 'next')")
    page = log_in(browse, acting)
    page.get_by_role("link", name="Failed events").click()
    page.get_by_role("heading", name="insert of public.orders").wait_for()
    page.get_by_text("skip this event, on this node only").wait_for()
    shown = page.content()
    for name in ("failed", "cascade", "moves", "changes"):
        page.goto(f"{acting}/api/v1/{name}")
        shown += page.content()
        page.goto(f"{acting}/{name}")
        shown += page.content()
    for value in ("secret-row", "local-secret", "(7)"):
        assert value not in shown, value

    # Another console may show them.
    url, process = pair.console("values", show_values="true")
    open_page = browse(f"{url}/failed")
    open_page.locator("pre", has_text="secret-row").wait_for()
    open_page.locator("pre", has_text="local-secret").wait_for()
    assert open_page.get_by_role("link", name="Skip this event").count() == 0
    open_page.close()
    assert process.stop() == 0

    page.goto(f"{acting}/failed")
    page.get_by_role("link", name="Skip this event").click()
    page.get_by_text("on this node only").wait_for()
    page.get_by_label("Reason").fill("known duplicate")
    page.get_by_role("button", name="Skip an event").click()
    page.get_by_role("status").wait_for()
    rows = "select count(*) from orders where id = 8"
    pair.line.wait(lambda: pair.leaf.database.value(rows) == 1, "the next row")
    page.goto(f"{acting}/failed")
    page.get_by_text("No failed events.").wait_for()
    assert logged(pair, "skip")[1:] == ("done", "known duplicate")
    page.goto(f"{acting}/changes")
    page.get_by_text("skip event").first.wait_for()

    # Once more: there is no such event, and the record says so.
    page.goto(f"{acting}/action/skip?node=branch&event=1")
    page.get_by_role("alert").get_by_text("not a failed event of this node").wait_for()


@pytest.mark.slow
def test_a_table_is_copied_again_and_copies_are_limited(
    pair: Pair, acting: str, browse: Browse
) -> None:
    page = log_in(browse, acting)
    page.goto(f"{acting}/copies")
    page.get_by_role("link", name="Limit copies").click()
    page.get_by_label("Megabytes per second").fill("7")
    page.get_by_role("button", name="Limit copies").click()
    page.get_by_text("at most 7,000,000 bytes per second").wait_for()
    page.goto(f"{acting}/copies")
    page.get_by_role("cell", name="7 MB/s").wait_for()
    page.goto(f"{acting}/action/throttle?node=branch")
    page.get_by_label("Megabytes per second").fill("1e3")
    page.get_by_role("button", name="Limit copies").click()
    page.get_by_role("alert").wait_for()
    page.get_by_role("link", name="Cascade").first.click()

    page.goto(f"{acting}/tables?node=branch&find=script")
    page.get_by_role("link", name="Copy again").click()
    page.get_by_text(f"copy table public.{HOSTILE} again").wait_for()
    pair.leaf.database.execute(f'delete from "{HOSTILE}"')
    pair.root.database.execute(f'insert into "{HOSTILE}" values (1), (2), (3)')
    page.get_by_role("button", name="Copy a table again").click()
    page.get_by_text("the worker copies the table again").wait_for()
    count = f'select count(*) from "{HOSTILE}"'
    pair.line.wait(lambda: pair.leaf.database.value(count) == 3, "the copy", 60)
    page.goto(f"{acting}/copies")
    page.get_by_text("All tables are in sync.").wait_for()
    assert logged(pair, "resync")[1] == "done"

    page.goto(f"{acting}/tables?node=branch&find=*")
    page.get_by_role("link", name="Copy again").click()
    page.get_by_text(f"copy table public.{PATTERN} again").wait_for()
    shown = page.content()
    assert "table public.orders" not in shown
    assert "londiste --node branch resync 'public.\\*'" in html.unescape(shown)
    page.get_by_role("button", name="Copy a table again").click()
    page.get_by_text("the worker copies the table again").wait_for()


def test_a_click_is_not_lost_when_the_page_is_renewed_before_the_release(
    acting: str, browse: Browse
) -> None:
    page = log_in(browse, acting)
    # The newest page comes when the test says so.
    page.add_init_script(
        "window.EventSource = class { addEventListener(name, f) { window.came = f } }"
    )
    page.goto(f"{acting}/tables?node=branch&find=script")
    page.get_by_role("link", name="Copy again").hover()
    page.mouse.down()
    renewed = "document.documentElement.outerHTML.replaceAll('Copy again', 'Copy it again')"
    page.evaluate(f"window.came({{data: {renewed}}})")
    page.mouse.up()
    page.get_by_text(f"copy table public.{HOSTILE} again").wait_for()
    page.go_back()
    page.get_by_role("link", name="Copy again").wait_for()
    page.evaluate(f"window.came({{data: {renewed}}})")
    page.get_by_role("link", name="Copy it again").wait_for()


@pytest.mark.slow
def test_rows_that_differ_are_repaired_after_the_steps_were_shown(
    pair: Pair, acting: str, browse: Browse
) -> None:
    pair.root.database.execute("insert into orders values (600, 'right-secret')")
    rows = "select note from orders where id = 600"
    pair.line.wait(lambda: pair.leaf.database.value(rows) == "right-secret", "the row")
    pair.leaf.database.execute(
        "set session_replication_role = replica;"
        " update orders set note = 'wrong-secret' where id = 600;"
        " insert into orders values (601, 'extra-secret')"
    )
    audit = ("compare", "orders", "--continuous", "--once", "--share", "1")
    assert pair.line.run(pair.leaf, *audit).code == 3
    page = log_in(browse, acting)
    page.get_by_role("link", name="Drift").click()
    link = page.get_by_role("link", name="Repair", exact=True)
    pair.line.wait(lambda: page.reload() and link.count() == 1, "the drift on the page", 60)
    link.click()
    page.get_by_text("table public.orders: delete 1 rows").wait_for()
    # With the event that another test has skipped.
    page.get_by_text(re.compile(r"table public.orders: update [12] rows")).wait_for()
    assert "londiste --node branch repair --apply public.orders" in page.content()
    assert "secret" not in page.content()
    # Nothing has been written yet.
    assert pair.leaf.database.value(rows) == "wrong-secret"
    page.get_by_label("Reason").fill("restored by hand")
    page.get_by_role("button", name="Repair a table").click()
    page.get_by_text(re.compile(r"wrote [23] rows at tick")).wait_for()
    page.get_by_text("equal now").wait_for()
    assert "secret" not in page.content()
    assert pair.leaf.database.value(rows) == "right-secret"
    assert pair.leaf.database.value("select count(*) from orders where id = 601") == 0
    assert logged(pair, "repair")[1:] == ("done", "restored by hand")

    page.goto(f"{acting}/action/repair?node=branch&table=public.orders")
    page.get_by_text("nothing to do", exact=False).first.wait_for()
    page.goto(f"{acting}/action/repair?node=branch&table=nothing")
    page.get_by_role("alert").get_by_text("nothing").first.wait_for()
    page.goto(f"{acting}/action/repair?node=root&table=public.orders")
    page.get_by_role("alert").wait_for()


@pytest.mark.slow
def test_dead_letters_are_retried(pair: Pair, acting: str, browse: Browse) -> None:
    database = pair.root.database
    with database.connect(autocommit=False) as conn:
        conn.execute("select pgq.register_consumer(%s, 'reader')", [QUEUE])
    database.execute("insert into orders values (900, 'secret-payload')")

    def opened() -> tuple[int, int] | None:
        batch = database.value("select pgq.next_batch(%s, 'reader')", QUEUE)
        if batch is None:
            return None
        found = database.value("select min(ev_id) from pgq.get_batch_events(%s)", batch)
        if found is None:
            database.execute("select pgq.finish_batch(%s)", batch)
            return None
        return batch, found

    batch, event = pair.line.wait(opened, "a batch with the event")
    database.execute("select pgq.event_failed(%s, %s, 'refused secret-payload')", batch, event)
    database.execute("select pgq.finish_batch(%s)", batch)
    page = log_in(browse, acting)
    page.goto(f"{acting}/queues")
    page.get_by_role("cell", name="dead letter").first.wait_for()
    assert "secret-payload" not in page.content()
    page.get_by_role("link", name="Retry dead letters").click()
    page.get_by_text("deliver 1 events to consumer reader again").wait_for()
    page.get_by_role("button", name="Retry dead letters").click()
    page.get_by_text("1 events are delivered to consumer reader again").wait_for()
    assert database.value("select pgq.failed_event_count(%s, 'reader')", QUEUE) == 0
    database.execute("select pgq.unregister_consumer(%s, 'reader')", QUEUE)


@pytest.mark.slow
def test_a_branch_becomes_the_root_after_its_steps_were_shown(
    pair: Pair, acting: str, browse: Browse
) -> None:
    page = log_in(browse, acting)
    page.get_by_role("link", name="Make root").click()
    page.locator(".steps li").first.wait_for()
    assert page.locator(".steps li").count() > 3
    assert "londiste switchover --to branch" in page.content()
    kind = "select node_type from pgq_node.node_info"
    assert pair.leaf.database.value(kind) == "branch"
    page.get_by_role("button", name="Make a node the root").click()
    page.get_by_text("node branch is the root").wait_for(timeout=90_000)
    assert pair.leaf.database.value(kind) == "root"
    assert pair.root.database.value(kind) == "branch"
    assert logged(pair, "switchover")[1] == "done"
