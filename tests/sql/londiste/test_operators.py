"""The log of operators' actions: recorded before and after, bounded, and of its queue only."""

from __future__ import annotations

import pytest

from londiste.errors import LondisteError
from londiste.monitor.operator_log import finish_action, get_action_log, log_action
from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_root


def test_an_action_is_recorded_before_it_begins_and_ends_once(pgq_db: Database) -> None:
    make_root(pgq_db)
    conn = pgq_db.connect()
    first = log_action(conn, "q", "anna@10.0.0.1", "pause", "londiste pause --node a", "")
    (one,) = get_action_log(conn, "q", 10)
    assert one.operator == f"anna@10.0.0.1 (role {conn.info.user})"
    assert (one.action, one.reason, one.ended_at, one.outcome) == ("pause", None, None, None)
    assert finish_action(conn, "q", first, "done")
    # The outcome stays.
    assert not finish_action(conn, "q", first, "failed")
    assert not finish_action(conn, "other", first, "failed")
    log_action(conn, "q", "otto", "resume", "londiste resume", "because")
    newest, oldest = get_action_log(conn, "q", 10)
    assert (newest.action, newest.reason) == ("resume", "because")
    assert oldest.outcome == "done"
    assert oldest.ended_at is not None
    assert oldest.ended_at >= oldest.began_at
    assert len(get_action_log(conn, "q", 1)) == 1
    assert get_action_log(conn, "other", 10) == []
    with pytest.raises(LondisteError):
        log_action(conn, "other", "anna", "pause", "x", "")


def test_the_log_keeps_the_newest_records(pgq_db: Database) -> None:
    make_root(pgq_db)
    conn = pgq_db.connect()
    log_action(conn, "q", "anna", "pause", "first", "")
    conn.execute("select setval('londiste.operator_log_action_id_seq', 10000)")
    log_action(conn, "q", "anna", "pause", "last", "")
    assert [one.command for one in get_action_log(conn, "q", 10)] == ["last"]
