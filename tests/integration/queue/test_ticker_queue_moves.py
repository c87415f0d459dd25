"""A queue that ticks elsewhere since the ticker has looked is no trouble."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from londiste.daemon.loop import Trouble
from londiste.db.connection import connect
from londiste.ticker import tick
from tests.fixtures.cluster import Database


def test_a_queue_that_became_a_branch_or_went_away_is_passed_over(
    new_database: Callable[..., Database], caplog: pytest.LogCaptureFixture
) -> None:
    database = new_database(pgq=True)
    for name in ("here", "branch"):
        database.execute("select pgq.create_queue(%s)", name)
        database.execute("select pgq.force_tick(%s)", name)
    database.execute("select pgq.set_queue_config('branch', 'external_ticker', 'true')")
    troubles: dict[str, Trouble] = {}
    with connect(database.dsn, autocommit=True) as conn:
        assert tick.run_once(conn, troubles, ["branch", "gone", "here"]) == 1
    assert not caplog.records
