"""Each kind of statement that makes order or rows difficult, captured in each form, ends equal.

Random cases find what nobody thought of; these say what was thought of.
"""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pytest

from tests.capture.cases import Alter, Case, Mark, Write
from tests.capture.pair import Differs, Pair
from tests.capture.statement_kinds import KINDS, ROWS, Kind, case_of
from tests.support.suite.slow import first, pairs


@pytest.mark.parametrize("form", first(["statement", "row"]))
@pytest.mark.parametrize("name", KINDS)
def test_what_is_replayed_is_what_was_done(pair: Pair, name: str, form: str) -> None:
    kind = KINDS[name]
    if pair.source.info.server_version // 10000 < kind.version:
        pytest.skip(f"PostgreSQL {kind.version} has this first")
    # The rows of a heir would be among those of a statement on its parent.
    options = ("form=auto",) if "app.heir" in kind.tables else (f"form={form}",)
    for packed in (True, False):
        before = pair.refused
        pair.run(case_of(kind, options, packed=packed))
        assert pair.refused == before, "a statement of the test itself was refused"


@pytest.mark.parametrize(
    "name",
    [
        "an AFTER trigger that changes the row again",
        "an AFTER trigger that deletes the row",
        "an AFTER trigger that inserts the row again",
    ],
)
def test_where_a_compatible_trigger_is_wrong_ours_is_right(pair: Pair, name: str) -> None:
    kind = KINDS[name]
    case = case_of(kind, ())
    pair.run(case)
    pair.make(case)
    pair.source.execute("select londiste.drop_capture('q', 'app.t')")
    pair.source.execute(
        "create trigger _londiste_q after insert or update or delete on app.t"
        " for each row execute function pgq.logutriga('q')"
    )
    with pytest.raises(Differs):
        pair.go(case)


@pytest.mark.parametrize(
    ("key", "flush_bytes"), pairs(["int4", "float8", "interval"], [500, 64 << 20])
)
def test_keys_are_swapped_whose_rows_have_another_unique_value(
    pair: Pair, key: str, flush_bytes: int
) -> None:
    value = {"interval": "g * interval '1 day'"}.get(key, "g")
    swapped = {"interval": "interval '21 days' - id"}.get(key, "21 - id")
    rows = f"insert into app.t select {value}, g, 'v', 'doc' from generate_series(1, 20) as g"
    case = Case(
        0,
        tables={"app.t": ("ignore=doc",)},
        made=(
            f"create table app.t (id {key} primary key deferrable, u int4, v text, doc text)",
            "alter table app.t add unique (u)",
        ),
        extras=(),
        steps=(
            Write((rows,)),
            Mark("replay"),
            Write((f"update app.t set id = {swapped}, doc = 'new'",)),
            Write((f"update app.t set id = {swapped}, v = 'w' where u in (1, 20)",)),
            Mark("replay joined"),
        ),
        flush_bytes=flush_bytes,
    )
    before = pair.refused
    pair.make(case)
    pair.go(replace(case, steps=case.steps[:2]))
    pair.target.execute("update app.t set doc = id::text")
    pair.go(replace(case, steps=case.steps[2:]))
    assert pair.refused == before
    kept = pair.target.execute("select count(*) from app.t where doc = id::text").fetchone()
    assert kept == (20,)


@pytest.mark.parametrize("form", first(["statement", "row"]))
@pytest.mark.parametrize("key", ["numeric", "bytea", "name", "char(3)", "float8", "inet"])
def test_a_state_of_the_same_key_keeps_what_only_the_target_has(
    pair: Pair, key: str, form: str
) -> None:
    one, two = {"inet": ("10.0.0.1", "10.0.0.2")}.get(key, ("1", "2"))
    made = f"create table app.t (id {key} primary key, n int4 default 0, doc text default 'new')"
    case = Case(
        0,
        tables={"app.t": ("ignore=doc", f"form={form}"), "app.item": ()},
        made=(
            made,
            f"create table app.item (id int4 primary key, acc {key})",
            "create function app.f() returns trigger language plpgsql as $f$ begin"
            " update app.t set n = n + 1 where id = new.acc; return null; end $f$",
            "create trigger a after insert on app.item for each row execute function app.f()",
        ),
        extras=(),
        steps=(
            Write((f"insert into app.t values ('{one}'), ('{two}')",)),
            Mark("replay"),
            Write((f"insert into app.item values (1, '{one}')",)),
            Write(
                (
                    "insert into app.t values ('3')".replace("3", one[:-1] + "3"),
                    f"delete from app.t where id = '{one[:-1]}3'",
                    f"insert into app.item values (2, '{two}')",
                    f"update app.t set n = n + 1 where id = '{two}'",
                )
            ),
            Mark("replay"),
        ),
    )
    pair.make(case)
    pair.go(replace(case, steps=case.steps[:2]))
    pair.target.execute("update app.t set doc = 'mine'")
    pair.go(replace(case, steps=case.steps[2:]))
    kept = pair.target.execute("select doc, count(*) from app.t group by doc").fetchall()
    assert kept == [("mine", 2)]


@pytest.mark.parametrize("form", ["row", "statement"])
@pytest.mark.parametrize("kind", [k for k in KINDS if "told last" in k or "same keys" in k])
def test_parts_of_a_query_end_right_behind_a_capture_that_is_stale(
    pair: Pair, kind: str, form: str
) -> None:
    case = case_of(KINDS[kind], (f"form={form}",))
    added = "alter table app.t add more text"
    steps = (*case.steps[:2], Alter(added, before=added), *case.steps[2:])
    pair.run(replace(case, steps=steps))


def test_an_error_of_the_application_stays_its_own(pair: Pair) -> None:
    pair.make(case_of(Kind(()), ()))
    pair.app.execute(ROWS)
    with pytest.raises(psycopg.errors.UniqueViolation):
        pair.app.execute("update app.t set id = 1 where id = 2")
    pair.replay()
    pair.compare("app.t")
