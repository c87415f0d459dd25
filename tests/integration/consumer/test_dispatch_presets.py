"""``londiste dispatch``: random changes of a queue against a model, for all presets and modes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from londiste.errors import BadOption, EventError, LondisteError
from londiste.handlers.dispatch_presets import PRESETS
from londiste.pgq import queues
from londiste.tools.dispatch.program import Dispatcher
from tests.fixtures.cluster import Database

QUEUE = "orders"
ENGINES = [
    "process",
    "local",
    pytest.param("spark", marks=[pytest.mark.slow, pytest.mark.spark]),
]
#: What the local engine shows beyond one test is in the slow run.
SOME = ["process", pytest.param("local", marks=pytest.mark.slow)]
FORMAT = {"hour": "%Y_%m_%d_%H", "day": "%Y_%m_%d", "month": "%Y_%m", "year": "%Y"}
PERIODS = {"hourly": "hour", "daily": "day", "monthly": "month", "yearly": "year"}
COLUMNS = "(id int {}, at timestamptz not null, v text, extra int)"
TRIGGERS = ("pgq.logutriga('{0}')", "pgq.jsontriga('{0}')")

Row = tuple[str, int, str | None]


@dataclass
class Ends:
    """A queue, the tables that feed it, and the database that they are dispatched into."""

    source: Database
    target: Database

    def table(self, name: str, trigger: str = TRIGGERS[0], *, key: bool = True) -> None:
        """A captured table there, and an empty one here."""
        self.source.execute(f"create table {name} {COLUMNS.format('primary key')}")
        self.source.execute(
            f"create trigger captured after insert or update or delete on {name}"
            f" for each row execute function {trigger.format(QUEUE)}"
        )
        self.target.execute(f"create table {name} {COLUMNS.format('primary key' if key else '')}")

    def tick(self, at: datetime | None = None) -> None:
        conn = self.source.connect()
        queues.force_tick(conn, QUEUE)
        tick = queues.ticker(conn, QUEUE)
        assert tick is not None
        if at is not None:
            conn.execute("update pgq.tick set tick_time = %s where tick_id = %s", [at, tick])

    def dispatcher(self, **given: Any) -> Dispatcher:
        made = Dispatcher(
            self.source.dsn,
            **{
                "queue_name": QUEUE,
                "consumer_name": "to_archive",
                "target_db": self.target.dsn,
                "handler": "daily_field",
                "part_field": "at",
                "parallel_apply_min_events": 30,
                **given,
            },
        )
        made.register()
        return made

    def rows(self, table: str) -> Counter[Row]:
        """What is here, with the partition of each."""
        return Counter(self.target.execute(f"select tableoid::regclass::text, id, v from {table}"))

    def ways(self) -> set[str]:
        return {way for (way,) in self.target.execute("select way from londiste.large_batch")}


@pytest.fixture
def ends(pgq_db: Database, new_database: Callable[..., Database]) -> Ends:
    queues.create_queue(pgq_db.connect(), QUEUE)
    return Ends(pgq_db, new_database(pgq=True))


@dataclass
class Model:
    """What one table has to come to; ``place`` names the partition of a change."""

    place: Callable[[datetime, datetime, datetime], str]
    row_mode: str
    there: dict[int, datetime] = field(default_factory=dict)
    kept: Counter[Row] = field(default_factory=Counter)

    def change(
        self, op: str, id: int, at: datetime, event: datetime, batch: datetime, v: str | None
    ) -> None:
        part = self.place(at, event, batch)
        if self.row_mode == "keep_all":
            if op != "D":
                self.kept[part, id, v] += 1
            return
        for row in [row for row in self.kept if row[:2] == (part, id)]:
            del self.kept[row]
        if op != "D":
            self.kept[part, id, v] = 1


class Storm:
    """Random changes of some tables, told to the source and to the models."""

    def __init__(self, ends: Ends, models: dict[str, Model], seed: int) -> None:
        self.ends = ends
        self.models = models
        self.random = random.Random(seed)
        self.last = 0
        self.count = 0

    def time(self) -> datetime:
        """Of two months, so that every period has several."""
        start = datetime(2025, 12, 30, 22, 30, tzinfo=UTC)
        return start + timedelta(hours=self.random.choice([0, 1, 2, 3, 30, 31, 800]))

    def batch(self, changes: int) -> None:
        """Some changes, and a tick."""
        batch = self.time()
        events = []
        conn = self.ends.source.connect()
        for _ in range(changes):
            name = self.random.choice(list(self.models))
            model = self.models[name]
            at, event = self.time(), self.time()
            v = self.random.choice([None, "", "ä\\ '\"\t\n", str(self.random.random())])
            id = self.random.choice([*model.there, 0])
            if id not in model.there:
                # An old version of a row may still lie in another partition, so ids are new ones.
                self.count += 1
                op, id = "I", self.count
                conn.execute(f"insert into public.{name} values (%s, %s, %s)", [id, at, v])
            elif self.random.random() < 0.3:
                op, at = "D", model.there.pop(id)
                conn.execute(f"delete from public.{name} where id = %s", [id])
            else:
                op = "U"
                if model.row_mode == "plain":
                    at = model.there[id]
                # One that changes nothing is no event.
                self.count += 1
                conn.execute(
                    f"update public.{name} set at = %s, v = %s, extra = %s where id = %s",
                    [at, v, self.count, id],
                )
            if op != "D":
                model.there[id] = at
            model.change(op, id, at, event, batch, v)
            events.append(event)
        ids = conn.execute(
            "select ev_id from pgq.event_template where ev_id > %s order by 1", [self.last]
        ).fetchall()
        assert len(ids) == len(events)
        with conn.cursor() as cursor:
            cursor.executemany(
                "update pgq.event_template set ev_time = %s where ev_id = %s",
                [(time, id) for time, (id,) in zip(events, ids, strict=True)],
            )
        self.last = ids[-1][0]
        self.ends.tick(batch)


def _place(table: str, period: str, mode: str) -> Callable[[datetime, datetime, datetime], str]:
    def place(at: datetime, event: datetime, batch: datetime) -> str:
        time = {"field": at, "event": event, "batch": batch}[mode]
        return f"{table}_{time.strftime(FORMAT[period])}"

    return place


@pytest.mark.parametrize(
    "batches", [(100, 20, 70), pytest.param((400, 20, 300), marks=pytest.mark.slow)], ids=str
)
@pytest.mark.parametrize(
    "engine",
    [
        "process",
        *(
            pytest.param(e, marks=[pytest.mark.slow, *m])
            for e, m in (("local", []), ("spark", [pytest.mark.spark]))
        ),
    ],
)
def test_every_preset_comes_to_what_the_model_says(
    engine: str, batches: tuple[int, ...], ends: Ends
) -> None:
    models: dict[str, Model] = {}
    sections: dict[str, dict[str, str]] = {}
    for number, preset in enumerate(PRESETS):
        name = f"t_{preset}"
        ends.table(name, TRIGGERS[number % 2])
        sections[f"public.{name}"] = {"handler": preset}
        adverb, _, word = preset.removeprefix("bulk_").partition("_")
        if adverb == "direct":
            models[name] = Model(lambda *times, name=name: name, "plain")  # type: ignore[misc]
        elif word == "time":
            # By the clock: all of it may lie in any partition, so the periods are long ones.
            models[name] = Model(lambda *times, name=name: name, "latest")  # type: ignore[misc]
        else:
            models[name] = Model(_place(name, PERIODS[adverb], word), "latest")
            if word == "field":
                sections[f"public.{name}"]["part_field"] = "at"
    dispatcher = ends.dispatcher(
        engine=engine, handler="dispatch", table_mode="ignore", part_field=None, tables=sections
    )
    storm = Storm(ends, models, seed=len(engine))
    for changes in batches:
        storm.batch(changes)
        dispatcher.run_once()
    for name, model in models.items():
        found = ends.rows(name)
        if name.endswith("_time"):
            found = Counter({(name, id, v): n for (_, id, v), n in found.items()})
        assert found == model.kept, name
    assert ends.ways() == (set() if engine == "process" else {"job"})


@pytest.mark.parametrize("engine", [*SOME, ENGINES[-1]])
@pytest.mark.parametrize("row_mode", ["plain", "keep_latest", "keep_all"])
def test_every_row_mode_comes_to_what_the_model_says(
    row_mode: str, engine: str, ends: Ends
) -> None:
    ends.table("t", key=row_mode != "keep_all")
    model = Model(_place("t", "month", "field"), row_mode)
    dispatcher = ends.dispatcher(engine=engine, period="month", row_mode=row_mode)
    storm = Storm(ends, {"t": model}, seed=7)
    for changes in (90, 10, 60):
        storm.batch(changes)
        dispatcher.run_once()
    assert ends.rows("t") == model.kept
    assert ends.ways() == (set() if engine == "process" else {"job"})


@pytest.mark.parametrize("engine", ["process", "local"])
def test_fields_truncates_and_events_that_are_no_rows(engine: str, ends: Ends) -> None:
    ends.table("t", TRIGGERS[0].replace(")", ", 'ev_extra4=''x''')"))
    ends.source.execute(
        "create trigger emptied after truncate on t for each statement execute function"
        f" pgq.logutriga('{QUEUE}')"
    )
    ends.target.execute(
        "create table renamed (nr int primary key, at timestamptz, v text default 'left out')"
    )
    dispatcher = ends.dispatcher(
        engine=engine,
        tables={
            "public.t": {"fields": ["id:nr", "at"], "table": "renamed", "event_types": "I,D"},
        },
        handler="daily_field",
    )
    insert = "insert into t select g, '2026-02-03 04:05+00', 'v' from generate_series({}, {}) g"
    ends.source.execute(insert.format(1, 50))
    ends.source.execute("truncate t")
    ends.source.execute(insert.format(60, 99))
    ends.source.execute("update t set v = 'not looked at'; delete from t where id > 61")
    ends.source.execute(f"select pgq.insert_event('{QUEUE}', 'mail', 'to somebody')")
    ends.tick()
    assert dispatcher.run_once() >= 1
    found = ends.target.execute("select tableoid::regclass::text, nr, v from renamed order by nr")
    assert found == [("renamed_2026_02_03", nr, "left out") for nr in (60, 61)]


@pytest.mark.parametrize("engine", SOME)
def test_retention_drops_old_partitions_and_old_events_make_none(engine: str, ends: Ends) -> None:
    ends.table("t")
    ends.target.execute(
        "create table t_2001_02_03 () inherits (t); create table t_9 () inherits (t)"
    )
    dispatcher = ends.dispatcher(engine=engine, retention_period="30 days", ignore_old_events=True)
    ends.source.execute(
        "insert into t select g, now() - interval '50 days' * (g % 2), 'v'"
        " from generate_series(1, 60) g"
    )
    ends.tick()
    dispatcher.run_once()
    today = ends.source.value("select to_char(now() at time zone 'UTC', 'YYYY_MM_DD')")
    found = ends.rows("t")
    assert {part for part, _, _ in found} == {f"t_{today}"}
    assert sum(found.values()) == 30
    left = ends.target.execute(
        "select inhrelid::regclass::text from pg_inherits where inhparent = 't'::regclass"
    )
    assert sorted(name for (name,) in left) == sorted(["t_9", f"t_{today}"])


@pytest.mark.parametrize("engine", SOME)
def test_an_event_that_does_not_fit_is_named_and_nothing_of_its_batch_is_here(
    engine: str, ends: Ends
) -> None:
    ends.table("t")
    dispatcher = ends.dispatcher(engine=engine)
    ends.source.execute(
        "insert into t select g, '2026-02-03 04:05+00', 'v' from generate_series(1, 50) g"
    )
    ends.source.execute(
        f"select pgq.insert_event('{QUEUE}', 'U:id', 'id=7&v=x', 'public.t', null, null, null)"
    )
    ends.tick()
    with pytest.raises(EventError, match="no time in column at") as caught:
        dispatcher.run_once()
    last = ends.source.value("select max(ev_id) from pgq.event_template where ev_type = 'U:id'")
    assert caught.value.event_id == last
    assert caught.value.hint
    assert ends.target.execute("select 1 from pg_inherits where inhparent = 't'::regclass") == []


#: Options, and words of the error.
NEVER: list[tuple[dict[str, Any], str]] = [
    ({"handler": "nothing"}, "unknown handler nothing"),
    ({"handler": "shard"}, "is not a dispatch handler"),
    ({"part_mode": "date_field", "handler": "dispatch", "part_field": None}, "part_field"),
    ({"period": "week"}, "period=week"),
    ({"row_mode": "keep_some"}, "row_mode=keep_some"),
    ({"event_types": ("X",)}, "event_types=X"),
    ({"ignore_old_events": "1"}, "requires retention_period"),
    ({"retention_period": "-2 days"}, "retention_period=-2 days"),
    ({"retention_period": "0", "table_filter": ("public.t",)}, "retention_period=0"),
    ({"fields": "*,a:b"}, "fields="),
    ({"table": "one"}, "for all tables"),
    ({"part_name": "fixed"}, "part_name=fixed"),
    ({"part_name": "%(parent)s"}, "does not show the year"),
    ({"part_name": "%(parent)s_%(day)s"}, "part_name=%(parent)s_%(day)s"),
    ({"tables": {"public.t": {"part_name": "public.t"}}}, "[table public.t]: "),
    ({"tables": {"public.t": {"fields": "id,at,nosuch"}}}, "no column nosuch"),
    ({"fields": "id:nr,at", "table_filter": ("public.t",)}, "no column nr"),
    ({"tables": {"public.t": {"table": "nosuch.t"}}}, "table nosuch.t does not exist"),
    ({"table_filter": ("public.not_here",)}, "table public.not_here does not exist"),
    ({"handler": "daily_event", "table_filter": ("public.t",)}, "part_field=at"),
    ({"tables": {"public.t": {"handler": "direct", "part_field": "at"}}}, "part_field=at"),
    ({"tables": {"public.t": {"perod": "day"}}}, "no option perod"),
    ({"tables": {"public.t": {"part_field": "nowhere"}}}, "no column nowhere"),
    ({"tables": {"public.t": {"part_template": "create %(prt)s"}}}, "'prt'"),
    ({"tables": {"public.t": {"part_func": "app.missing"}}}, "function app.missing"),
]


def test_options_that_can_never_work_are_refused(ends: Ends) -> None:
    ends.table("t")
    for given, said in NEVER:
        with pytest.raises(BadOption) as caught:
            ends.dispatcher(**given).run_once()
        assert said in caught.value.message, given
        assert caught.value.hint and "--handler-arg" not in caught.value.hint, given


@pytest.mark.parametrize("engine", SOME)
def test_a_row_that_does_not_fit_halts_until_it_is_left_out(engine: str, ends: Ends) -> None:
    ends.table("t")
    dispatcher = ends.dispatcher(engine=engine, handler="direct", part_field=None)
    ends.target.execute("insert into t values (30, now(), 'in the way')")
    ends.source.execute("insert into t select g, now(), 'v' from generate_series(1, 50) g")
    ends.tick()
    with pytest.raises(EventError, match="cannot be applied by consumer ") as caught:
        dispatcher.run_once()
    assert ends.rows("t") == {("t", 30, "in the way"): 1}
    number = caught.value.event_id
    assert f"skip the event: --set skip_events={number}" in caught.value.hint
    # As before there was a setting for it.
    filter = f"ev_id <> {number}"
    again = ends.dispatcher(
        engine=engine, handler="direct", part_field=None, consumer_filter=filter
    )
    again.run_once()
    assert sum(ends.rows("t").values()) == 50
    assert ends.rows("t")["t", 30, "in the way"] == 1


def test_a_table_that_is_not_there_is_named(ends: Ends) -> None:
    ends.table("t")
    ends.target.execute("drop table t")
    dispatcher = ends.dispatcher(handler="direct", part_field=None)
    ends.source.execute("insert into t values (1, now(), 'v')")
    ends.tick()
    with pytest.raises(LondisteError, match=r"public\.t"):
        dispatcher.run_once()


@pytest.mark.parametrize("row_mode", ["keep_latest", "plain"])
@pytest.mark.parametrize("engine", SOME)
def test_changes_of_two_sources_come_into_one_table_in_their_order(
    engine: str, row_mode: str, ends: Ends
) -> None:
    for name in ("p1", "p2", "merged"):
        ends.table(name)
    into = {"handler": "dispatch", "table": "public.merged", "row_mode": row_mode}
    dispatcher = ends.dispatcher(
        engine=engine,
        handler="dispatch",
        part_field=None,
        table_mode="direct",
        parallel_apply_min_events=3,
        tables={"public.p1": into, "public.p2": into},
    )
    ends.source.execute("insert into p1 values (1, now(), 'one')")
    ends.tick()
    dispatcher.run_once()
    # A row moves from one partition to the other.
    ends.source.execute(
        "insert into p2 values (2, now(), 'two'); delete from p1 where id = 1;"
        " insert into p2 values (1, now(), 'x'); update p2 set v = 'moved' where id = 1"
    )
    ends.tick()
    dispatcher.run_once()
    assert ends.rows("merged") == Counter({("merged", 1, "moved"): 1, ("merged", 2, "two"): 1})


@pytest.mark.parametrize("preset", ["hourly_field", "daily_field", "monthly_field", "yearly_field"])
def test_a_row_at_the_end_of_time_has_a_partition(preset: str, ends: Ends) -> None:
    ends.table("t")
    dispatcher = ends.dispatcher(
        handler=preset, post_part="comment on table %(part)s is '%(part_to)s'"
    )
    ends.source.execute("insert into t values (1, '9999-12-31 23:00+00', 'x')")
    ends.tick()
    dispatcher.run_once()
    assert ends.target.execute("select id, obj_description(tableoid) from t") == [
        (1, "10000-01-01 00:00:00+00")
    ]


def test_a_reload_that_fails_leaves_rules_and_filter(ends: Ends) -> None:
    ends.table("t")
    ends.table("secret")
    given: dict[str, Any] = {"table_filter": ("public.t",), "tables": {}}
    made = ends.dispatcher(**given)
    settings = made.settings
    made.run_once()
    section = {"handler": "dispatch", "table": "archive.secret", "row_mode": "keepall"}
    wrong = {"table_filter": ("public.t", "public.secret"), "tables": {"public.secret": section}}
    made._read = lambda: settings.model_copy(update=wrong)
    with pytest.raises(BadOption, match="keepall"):
        made._reload()
    assert made.settings == settings
    ends.source.execute(
        "insert into secret values (1, now(), 'x'); insert into t values (1, now())"
    )
    ends.tick()
    made.run_once()
    assert sum(ends.rows("t").values()) == 1 and not ends.rows("secret")
