"""Notifications of table changes reach other sessions, and not the session that caused them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from londiste.copy.sessions import Changes
from londiste.db.names import TableName
from londiste.replication import sqlapi as tables
from londiste.replication.notifications import TableNotifications, rest
from tests.fixtures.copies import A, Nodes
from tests.fixtures.nodes import ret
from tests.support.waiting import readable, wait_for


@pytest.fixture
def news(nodes: Nodes) -> Iterator[TableNotifications]:
    with nodes.leaf.connect(autocommit=True) as conn:
        yield TableNotifications(conn, "q")


def wakes(news: TableNotifications, work: Callable[[], object]) -> bool:
    """Whether the work ends the sleep after a look."""
    news.begin()
    news.end()
    files = wait_for(news.files, what="the end of a rest")
    work()
    return bool(readable(files, 30))


def known(nodes: Nodes, name: TableName = A) -> None:
    assert ret(nodes.root, "londiste.local_add_table", "q", str(name))[0] < 400
    assert ret(nodes.leaf, "londiste.global_add_table", "q", str(name))[0] < 400


def test_a_table_that_is_added_changed_set_and_removed_is_news_each_time(
    nodes: Nodes, news: TableNotifications
) -> None:
    known(nodes)
    steps: list[Callable[[], object]] = [
        lambda: ret(nodes.leaf, "londiste.local_add_table", "q", str(A)),
        lambda: nodes.leaf.value(
            "select londiste.move_table_state('q', %s, null, 'in-copy', null)", str(A)
        ),
        lambda: ret(nodes.leaf, "londiste.local_set_table_state", "q", str(A), None, None),
        lambda: ret(nodes.leaf, "londiste.local_remove_table", "q", str(A)),
    ]
    for step in steps:
        assert wakes(news, step)
        news.begin()
        assert news.told


def test_a_state_that_somebody_else_has_changed_first_is_no_news(
    nodes: Nodes, news: TableNotifications
) -> None:
    known(nodes)
    assert wakes(news, lambda: ret(nodes.leaf, "londiste.local_add_table", "q", str(A)))
    news.begin()
    moved = "select londiste.move_table_state('q', %s, 'ok', 'in-copy', null)"
    other = "select pg_notify('londiste_tables', 'another queue')"
    assert wakes(news, lambda: (nodes.leaf.value(moved, str(A)), nodes.leaf.execute(other)))
    news.begin()
    assert not news.told


def test_what_the_listener_says_itself_is_no_news(nodes: Nodes) -> None:
    known(nodes)
    ret(nodes.leaf, "londiste.local_add_table", "q", str(A))
    with nodes.leaf.connect(autocommit=True) as conn:
        news = TableNotifications(conn, "q")
        assert tables.move_table_state(conn, "q", A, None, "in-copy", None)
        news.begin()
        assert not news.told


def test_after_a_long_look_the_next_one_waits_in_proportion() -> None:
    assert rest(0.001) is None
    assert rest(0.02) == pytest.approx(0.08)
    assert rest(60) == 0.2


def test_a_change_between_the_look_and_the_wait_ends_the_wait() -> None:
    changes = Changes()
    seen = changes.count()
    changes.tell()
    began = time.monotonic()
    changes.wait(seen, 3600)
    waiting = threading.Thread(target=changes.wait, args=(changes.count(), 3600), daemon=True)
    waiting.start()
    while waiting.is_alive():
        changes.tell()
        waiting.join(0.01)
    assert time.monotonic() - began < 1800
