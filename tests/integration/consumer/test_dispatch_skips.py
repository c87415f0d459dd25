"""A row that does not fit is skipped alone, though its event has the rows of a whole statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from londiste.errors import ApplyError, BadOption, EventError
from londiste.pgq import queues
from londiste.tools.dispatch.skips import explain
from tests.fixtures.cluster import Database
from tests.integration.consumer.test_dispatch_presets import QUEUE, SOME, Ends

#: The first rows of a statement are events of their own.
ALONE = 8
ROWS = """
insert into public.t
select g, case when g not in ({}) then timestamptz '2026-02-03' end, 'a secret'
from generate_series(1, 100) as g
"""


@pytest.fixture
def ends(pgq_db: Database, new_database: Callable[..., Database]) -> Ends:
    queues.create_queue(pgq_db.connect(), QUEUE)
    ends = Ends(pgq_db, new_database(pgq=True))
    ends.table("t")
    for side in (ends.source, ends.target):
        side.execute("alter table t alter at drop not null")
    ends.source.execute(
        f"drop trigger captured on t; select londiste.create_capture('{QUEUE}', 'public.t')"
    )
    return ends


def fails(ends: Ends, **given: Any) -> EventError:
    with pytest.raises(EventError) as caught:
        ends.dispatcher(parallel_apply_min_events=1, **given).run_once()
    return caught.value


@pytest.mark.parametrize("engine", SOME)
def test_rows_without_a_time_are_skipped_one_by_one(engine: str, ends: Ends) -> None:
    ends.dispatcher()
    ends.source.execute(ROWS.format("50, 70"))
    ends.tick()
    error = fails(ends, engine=engine)
    number = error.event_id
    one, two = f"{number}:{50 - ALONE}", f"{number}:{70 - ALONE}"
    assert f"event {number} has 92 rows, this is row 42" in error.detail
    assert error.hint == f"skip row 42 of the event: --set skip_events={one}"
    assert "secret" not in f"{error} {error.detail} {error.hint}"
    error = fails(ends, engine=engine, skip_events=one)
    assert error.hint.endswith(f"--set skip_events={one},{two}")
    ends.dispatcher(engine=engine, skip_events=f"{one},{two}").run_once()
    assert sum(ends.rows("t").values()) == 98


@pytest.mark.parametrize("engine", SOME)
def test_a_row_that_is_in_the_way_is_skipped_alone(engine: str, ends: Ends) -> None:
    given: dict[str, Any] = {"engine": engine, "handler": "direct", "part_field": None}
    ends.dispatcher(**given)
    ends.target.execute("insert into t values (30, now(), 'in the way')")
    ends.source.execute(ROWS.format("0"))
    ends.tick()
    error = fails(ends, **given)
    assert error.hint.startswith("correct the table or the row in the target; or skip row 22 ")
    ends.dispatcher(**given, skip_events=f"{error.event_id}:22").run_once()
    assert sum(ends.rows("t").values()) == 100
    assert ends.rows("t")["t", 30, "in the way"] == 1


def test_a_whole_event_is_skipped_by_its_number_alone(ends: Ends) -> None:
    ends.dispatcher()
    ends.source.execute(ROWS.format("50"))
    ends.tick()
    ends.dispatcher(skip_events=str(fails(ends).event_id)).run_once()
    assert sum(ends.rows("t").values()) == ALONE


def test_a_partition_with_too_long_a_name_names_the_event_and_the_settings(ends: Ends) -> None:
    name = "t" * 60
    ends.table(name)
    ends.dispatcher()
    ends.source.execute(f"insert into {name} values (1, now(), 'v')")
    ends.tick()
    error = fails(ends)
    assert f"event {error.event_id}: table public.{name}: name of partition" in error.message
    assert error.hint == (
        "shorten it: set part_name=SCHEMA.SHORT_%(year)s_%(month)s_%(day)s; or in a section"
        f" [table public.{name}]: table or part_name, or table_mode = ignore"
    )
    ends.dispatcher(tables={f"public.{name}": {"table_mode": "ignore"}}).run_once()


def test_an_event_that_names_no_table_is_skipped(ends: Ends) -> None:
    ends.dispatcher()
    ends.source.execute(f"select pgq.insert_event('{QUEUE}', 'I', 'no row')")
    ends.source.execute("insert into t values (1, now(), 'behind it')")
    ends.tick()
    with pytest.raises(EventError) as caught:
        ends.dispatcher().run_once()
    ends.dispatcher(skip_events=str(caught.value.event_id)).run_once()
    assert sum(ends.rows("t").values()) == 1


CHANGES = {
    # What is done with the row, and the other change that stops the dispatcher no more.
    "statement": "delete from t where id = 1",
    "row": "update t set id = 2 where id = 1",
}


@pytest.mark.parametrize("form", CHANGES)
def test_a_delete_without_its_time_names_what_remains_and_the_capture(
    form: str, ends: Ends
) -> None:
    ends.dispatcher()
    assert ends.source.value(f"select londiste.change_form('{QUEUE}', 'public.t', '{form}')")
    ends.source.execute("insert into t values (1, '2026-02-03', 'v')")
    ends.tick()
    ends.dispatcher().run_once()
    ends.source.execute(CHANGES[form])
    ends.tick()
    error = fails(ends)
    first, _, later = error.hint.partition("; ")
    option = f"skip_events={error.event_id}"
    assert first == (
        f"delete the row with its key in the target (id), then skip the event: --set {option}"
    )
    ends.target.execute("delete from t where id = 1")
    ends.dispatcher(skip_events=str(error.event_id)).run_once()
    assert ends.rows("t") == ({} if form == "statement" else {("t_2026_02_03", 2, "v"): 1})
    if form == "row":
        # A capture by row changes nothing for a key.
        assert not later and "the key of the row was changed" in error.detail
        return
    words = "for later events, in the source database: "
    assert later.startswith(words)
    assert ends.source.value(later.removeprefix(words)) is True
    ends.source.execute("insert into t values (3, '2026-02-03', 'v'); delete from t where id = 3")
    ends.tick()
    ends.dispatcher(skip_events=str(error.event_id)).run_once()
    assert not ends.rows("t")


@pytest.mark.parametrize(
    ("found", "rows", "said"),
    [
        (None, None, "skip the event with all its rows: --set skip_events=1,9"),
        (None, 1, "skip the event: --set skip_events=1,9"),
        (None, 92, "skip all 92 rows of the event: --set skip_events=1,9"),
        (ApplyError(row=7), 92, "skip row 7 of the event: --set skip_events=1,9:7"),
        (ApplyError(row=7), None, "skip row 7 of the event: --set skip_events=1,9:7"),
        (
            ApplyError(row=7, dest="public.t"),
            92,
            "correct the table or the row in the target; or skip row 7 of the event:"
            " --set skip_events=1,9:7",
        ),
    ],
)
def test_the_hint_says_what_is_skipped(found: ApplyError | None, rows: int, said: str) -> None:
    error = EventError("wrong", event_id=9, finding=found)
    explain(error, rows, frozenset({(1, 0)}))
    assert error.hint == said
    assert ("has 92 rows" in error.detail) is (rows == 92)


@pytest.mark.parametrize("name", ["x", "1:", "1:2:3", "-1", "9223372036854775808"])
def test_what_is_no_event_is_refused(name: str, ends: Ends) -> None:
    with pytest.raises(BadOption, match="is no event: write 4711"):
        ends.dispatcher(skip_events=name)
