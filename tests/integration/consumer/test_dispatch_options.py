"""The options of ``londiste dispatch`` and their effect on rows and partitions."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.line import Command, Line, LineNode
from tests.support.servers.kept_nodes import kept_nodes

TABLE = "create table {} (id int primary key, at timestamptz not null, v text);"
PARTS = "select tableoid::regclass::text, id, v from {} order by id, 1"


@pytest.fixture
@kept_nodes
def nodes(line: Line) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT)
    leaf = line.node("leaf", NodeType.LEAF, root, schema="create table done (nr serial, what text)")
    return root, leaf


class Pair:
    """A root and a leaf, and what tests do with them."""

    def __init__(self, line: Line, command: Command, nodes: tuple[LineNode, LineNode]) -> None:
        self.line = line
        self.command = command
        self.root, self.leaf = nodes

    def make(self, *tables: str) -> None:
        """Makes tables on both sides, if the leaf has them not, captured by row on the root."""
        for table in tables:
            self.root.database.execute(TABLE.format(table))
            self.leaf.database.execute(TABLE.replace("table", "table if not exists").format(table))
        self.line.add(self.root, *(table.replace('"', "") for table in tables), form="row")
        self.line.tick()
        self.line.once(self.leaf)

    def add(self, table: str, handler: str, *options: str, code: int = 0) -> str:
        given = [word for option in options for word in ("--handler-arg", option)]
        done = self.command(
            self.leaf, "add-table", table, "--expect-sync", "--handler", handler, *given
        )
        assert done.code == code, done.err
        return done.err

    def write(self, *statements: str) -> None:
        """On the root, in a batch that the leaf takes."""
        for statement in statements:
            self.root.database.execute(statement)
        self.line.tick()
        self.line.once(self.leaf)

    def halts(self, *statements: str) -> str:
        """On the root, in a batch that the leaf refuses; what it says."""
        for statement in statements:
            self.root.database.execute(statement)
        self.line.tick()
        done = self.line.here(self.leaf, "worker", "--once")
        assert done.code == 5, str(done)
        return done.err

    def here(self, table: str, asked: str = PARTS) -> list[Any]:
        return self.leaf.database.execute(asked.format(table))

    def partitions(self, table: str) -> list[str]:
        found = self.leaf.database.execute(
            'select inhrelid::regclass::text collate "C" from pg_inherits'
            " where inhparent = %s::regclass order by 1",
            table,
        )
        return [name for (name,) in found]


@pytest.fixture
def pair(line: Line, command: Command, nodes: tuple[LineNode, LineNode]) -> Pair:
    return Pair(line, command, nodes)


def test_partitions_older_than_the_retention_period_go_and_old_events_do_not_halt(
    pair: Pair,
) -> None:
    pair.make("kept", "passed")
    days = {
        back: pair.root.database.value(
            f"select to_char((now() - interval '{back} days') at time zone 'UTC', 'YYYY_MM_DD')"
        )
        for back in (0, 1, 40, 50)
    }
    for table in ("kept", "passed"):
        pair.leaf.database.execute(
            f"create table {table}_2001_02_03 () inherits ({table});"
            f"create table {table}_9 () inherits ({table});"
        )
    options = ("part_field=at", "retention_period=30 days")
    pair.add("kept", "daily_field", *options)
    pair.add("passed", "daily_field", *options, "ignore_old_events=1")
    for table in ("kept", "passed"):
        pair.root.database.execute(
            f"insert into {table} values (1, now() - interval '40 days', 'old'),"
            f" (2, now(), 'new'), (3, now() - interval '50 days', 'older')"
        )
    pair.write()
    for table in ("kept", "passed"):
        assert pair.here(table) == [(f"{table}_{days[0]}", 2, "new")]
        assert pair.partitions(table) == [f"{table}_{days[0]}", f"{table}_9"]
    # Nothing but old ones, and changes of rows that are gone.
    for table in ("kept", "passed"):
        pair.root.database.execute(f"update {table} set v = v || '!'")
        pair.root.database.execute(f"delete from {table} where id = 3")
    pair.write()
    for table in ("kept", "passed"):
        assert pair.here(table) == [(f"{table}_{days[0]}", 2, "new!")]
    # What is in use somebody has made: it stays, and replication says which one it is.
    pair.leaf.database.execute(
        "create table kept_2001_02_03 () inherits (kept);"
        "create view seen as select * from kept_2001_02_03"
    )
    pair.root.database.execute("insert into kept values (4, now() - interval '1 day', 'x')")
    pair.line.tick()
    done = pair.line.here(pair.leaf, "worker", "--once")
    assert done.code != 0
    assert "view public.seen depends on table public.kept_2001_02_03" in done.err
    pair.leaf.database.execute("drop view seen")
    pair.write()
    assert pair.partitions("kept") == sorted(["kept_9", f"kept_{days[0]}", f"kept_{days[1]}"])


def test_what_can_never_work_is_refused_by_the_command(pair: Pair) -> None:
    pair.make("t")
    for options, said in (
        (("part_template=create table %(prt)s",), "'prt'"),
        (("pre_part=select '%(part)s' 5%",), "pre_part"),
        (("post_part=%(when)s",), "'when'"),
        (("part_name=%(parent)s_%(week)s",), "'week'"),
        (("part_func=app.missing",), "function app.missing"),
        (("part_func=missing",), "function missing"),
        (("retention_period=soon",), "soon"),
        (("retention_period=-2 days",), "would drop what was just written"),
        (("retention_period=0 days",), "would drop what was just written"),
        (("retention_period=1 day -36 hours",), "would drop what was just written"),
        (("ignore_old_events=1",), "requires retention_period"),
        # By these names nobody would ever find a partition that is old.
        (("part_name=%(parent)s_p%(year)s%(month)s", "retention_period=1 day"), "part_name"),
        (("part_name=archive.%(day)s", "retention_period=1 day"), "part_name"),
        (("part_name=%(parent)s_%(year)s_%(month)s", "retention_period=1 day"), "part_name"),
        (("skip_fields=id",), "key"),
        (("fields=v",), "key"),
        (("part_mode=date_field", "part_field=nowhere"), "nowhere"),
        (("part_field=at",), "part_field=at"),
        (("part_name=fixed",), "does not show the year"),
        (("part_name=t_%(year)s_%(month)s", "period=hour"), "does not show the day"),
        (("fields=id,nosuch",), "no such column"),
    ):
        assert said in pair.add("t", "dispatch", *options, code=2), options
    assert pair.leaf.database.execute("select 1 from londiste.table_info where local") == []


def test_partitions_are_made_as_the_options_say(pair: Pair) -> None:
    pair.leaf.database.execute(
        """
        create schema app; create schema store;
        create function app.made(parent text, part text, pkeys text, field text, at timestamptz,
            period text) returns void language plpgsql as $$
        begin
            execute format('create table %s () inherits (%s)', part, parent);
            insert into public.done (what)
            values (concat_ws(' ', 'func', parent, part, pkeys, field, at, period));
        end $$;
        """
    )
    pair.make("around", "byfunc", "named", "hours", "years")
    at = ("part_mode=date_field", "part_field=at")
    pair.add(
        "around",
        "dispatch",
        *at,
        "pre_part=insert into public.done (what) values ('pre %(schema_table)s');"
        " insert into public.done (what) select 'there' where to_regclass('%(part)s') is not null",
        "part_template=create table %(part)s (primary key (%(pkeys)s),"
        " check (%(part_field)s >= '%(part_from)s' and %(part_field)s < '%(part_to)s'))"
        " inherits (%(dest)s); comment on table %(part)s is '%(parent)s %(period)s 100%%'",
        "post_part=insert into public.done (what) select 'post %(part_time)s '"
        " || obj_description('%(part)s'::regclass)",
        "load_mode=bulk",
        "analyze=1",
    )
    pair.add("byfunc", "dispatch", *at, "part_func=app.made", "period=month")
    pair.add("named", "dispatch", *at, "part_name=store.n%(hour)s%(day)s%(month)s%(year)s")
    pair.add("hours", "dispatch", *at, "period=hour")
    pair.add("years", "dispatch", *at, "period=year")
    rows = (
        "set timezone = 'Asia/Kathmandu'; insert into {} values"
        " (1, '2026-01-01 05:44:59.9+05:45', 'a'), (2, '2026-01-01 05:45+05:45', 'b'),"
        " (3, '2026-01-01 06:45:00.000001+05:45', 'c')"
    )
    pair.write(*(rows.format(t) for t in ("around", "byfunc", "named", "hours", "years")))
    assert pair.here("around") == [
        ("around_2025_12_31", 1, "a"),
        ("around_2026_01_01", 2, "b"),
        ("around_2026_01_01", 3, "c"),
    ]
    assert pair.here("byfunc") == [
        ("byfunc_2025_12", 1, "a"),
        ("byfunc_2026_01", 2, "b"),
        ("byfunc_2026_01", 3, "c"),
    ]
    assert pair.leaf.database.execute(
        "select table_schema || '.' || table_name"
        " from information_schema.tables where table_schema = 'store' order by 1"
    ) == [("store.n0001012026",), ("store.n0101012026",), ("store.n2331122025",)]
    assert pair.here("hours") == [
        ("hours_2025_12_31_23", 1, "a"),
        ("hours_2026_01_01_00", 2, "b"),
        ("hours_2026_01_01_01", 3, "c"),
    ]
    assert [row[0] for row in pair.here("years")] == ["years_2025", "years_2026", "years_2026"]
    done = "select what from done order by nr"
    before = pair.here("", done)
    assert [what for (what,) in before] == [
        "pre public__around_2025_12_31",
        'post 2025-12-31 23:59:59+00 "public"."around" day 100%',
        "pre public__around_2026_01_01",
        'post 2026-01-01 00:00:00+00 "public"."around" day 100%',
        "func public.byfunc public.byfunc_2025_12 id at 2025-12-31 23:59:59.9+00 month",
        "func public.byfunc public.byfunc_2026_01 id at 2026-01-01 00:00:00+00 month",
    ]
    # Partitions that are there are not made again, and are updated and emptied by rows.
    pair.write("update around set v = 'x'; delete from around where id = 2; delete from hours")
    assert pair.here("", done) == before
    assert pair.here("around") == [
        ("around_2025_12_31", 1, "x"),
        ("around_2026_01_01", 3, "x"),
    ]
    assert pair.here("hours") == []
    pair.write("truncate around, byfunc")
    assert pair.here("around") == pair.here("byfunc") == []
    assert len(pair.partitions("around")) == 2


def test_the_time_of_event_batch_and_writing_is_todays(pair: Pair) -> None:
    modes = ("event_time", "batch_time", "current_time")
    pair.make(*(f"by_{mode}" for mode in modes))
    for mode in modes:
        pair.add(
            f"by_{mode}", "dispatch", f"part_mode={mode}", "row_mode=keep_latest", "period=year"
        )
    years = "select distinct extract(year from x at time zone 'UTC')::text"
    years += " from (values (now()), (clock_timestamp())) v (x)"
    begun = pair.root.database.value(years)
    pair.write(*(f"insert into by_{mode} values (1, '2001-01-01', 'a')" for mode in modes))
    ended = pair.root.database.value(years)
    for mode in modes:
        assert pair.here(f"by_{mode}")[0][0] in {f"by_{mode}_{begun}", f"by_{mode}_{ended}"}


def test_rows_are_told_as_the_options_say(pair: Pair) -> None:
    pair.leaf.database.execute(
        "create table elsewhere (id int primary key, v text);"
        "create table every (id int, at timestamptz, v text); create table without_key (word text)"
    )
    tables = ("latest", "inserts", "chosen", "into_other", "quiet", "loud", "every", "without_key")
    pair.make(*tables, "only_new")
    direct = "table_mode=direct"
    pair.add("latest", "dispatch", direct, "row_mode=keep_latest")
    pair.add("inserts", "dispatch", direct, "event_types=i, D")
    pair.add("chosen", "dispatch", direct, "fields=id,at")
    pair.add("into_other", "dispatch", direct, "table=elsewhere", "skip_fields=at")
    pair.add("quiet", "dispatch", direct, "ignore_truncate=1")
    pair.add("loud", "dispatch", direct)
    pair.add("only_new", "dispatch", direct, "method=3")
    pair.add("every", "dispatch", direct, "row_mode=keep_all")
    pair.add("without_key", "dispatch", direct, "row_mode=keep_all", "fields=v:word")
    replica = "set session_replication_role = replica; "
    for table in (*tables, "only_new"):
        pair.root.database.execute(
            f"insert into {table} select i, now(), 'v' from generate_series(1, 4) i"
        )
    pair.write()
    # Rows 1 and 2 are not here any more.
    pair.leaf.database.execute(replica + "delete from latest where id in (1, 2)")
    for table in tables:
        pair.root.database.execute(
            f"update {table} set v = 'new' where id in (1, 3);"
            f"delete from {table} where id = 2; insert into {table} values (9, now(), 'v')"
        )
    pair.write()
    ids = "select id, v from {} order by id, v"
    assert pair.here("latest", ids) == [(1, "new"), (3, "new"), (4, "v"), (9, "v")]
    assert pair.here("inserts", ids) == [(1, "v"), (3, "v"), (4, "v"), (9, "v")]
    assert pair.here("chosen", ids) == [(1, None), (3, None), (4, None), (9, None)]
    assert pair.here("elsewhere", ids) == pair.here("loud", ids) == pair.here("quiet", ids)
    assert pair.here("loud", ids) == [(1, "new"), (3, "new"), (4, "v"), (9, "v")]
    assert pair.here("every", ids) == [
        *((1, "new"), (1, "v"), (2, "v"), (3, "new"), (3, "v"), (4, "v"), (9, "v"))
    ]
    words = "select word, count(*) from {} group by 1 order by 1"
    assert pair.here("without_key", words) == [("new", 2), ("v", 5)]
    pair.write("truncate quiet, loud", "insert into quiet values (10, now(), 'v')")
    assert len(pair.here("quiet", ids)) == 5
    assert pair.here("loud", ids) == []
    # What is no INSERT halts; that it is deleted again in the same batch is no matter.
    said = pair.halts("update only_new set v = 'x' where id = 1; delete from only_new")
    assert "accepts only inserts" in said
    assert len(pair.here("only_new", ids)) == 4


def test_a_declared_parent_and_hostile_names_get_partitions(pair: Pair) -> None:
    odd = '"Odd %s"."It\'s 100%"'
    parent = "create table {} (id int, at timestamptz, v text, primary key (id, at))"
    for node in (pair.root, pair.leaf):
        node.database.execute('create schema "Odd %s"')
    pair.leaf.database.execute(parent.format("declared") + " partition by range (at)")
    pair.make("declared", odd)
    pair.add("declared", "monthly_field", "part_field=at", "retention_period=1000 years")
    pair.add("Odd %s.It's 100%", "daily_field", "part_field=at")
    for table in ("declared", odd):
        pair.root.database.execute(
            f"insert into {table} values (1, '2026-01-31 23:59:59.999999+00', 'a'),"
            " (2, '2026-02-01 00:00+00', 'b')"
        )
        pair.root.database.execute(f"update {table} set v = v || 'x'")
    pair.write()
    assert pair.here("declared") == [
        ("declared_2026_01", 1, "ax"),
        ("declared_2026_02", 2, "bx"),
    ]
    assert pair.here(odd) == [
        ('"Odd %s"."It\'s 100%_2026_01_31"', 1, "ax"),
        ('"Odd %s"."It\'s 100%_2026_02_01"', 2, "bx"),
    ]


def test_rows_without_a_time_are_skipped_one_by_one_on_a_node(pair: Pair) -> None:
    for node in (pair.root, pair.leaf):
        node.database.execute(TABLE.format("t"))
    # Captured by statement: all rows but the first are one event.
    pair.line.add(pair.root, "t")
    pair.add("t", "daily_field", "part_field=at")
    said = pair.halts(
        "insert into t select g, case when g in (15, 17) then timestamptz 'infinity'"
        " else '2026-01-01' end, 'x' from generate_series(1, 20) as g"
    )
    for row in (15 - 8, 17 - 8):
        named = re.search(rf"londiste events skip (\d+:{row})\b", said)
        assert named is not None, said
        assert pair.command(pair.leaf, "events", "skip", named[1]).code == 0
        done = pair.line.here(pair.leaf, "worker", "--once")
        said = done.err
    assert done.code == 0
    assert pair.here("t") == [
        ("t_2026_01_01", nr, "x") for nr in range(1, 21) if nr not in (15, 17)
    ]


def test_a_time_that_no_partition_has_halts_and_says_which_event(pair: Pair) -> None:
    pair.make("t")
    pair.add("t", "daily_field", "part_field=at")
    outside = "table public.t: the time in column at is outside of the years 1 to 9999"
    said = pair.halts(
        "insert into t values (1, 'infinity', 'x'), (3, '0044-03-15 BC', 'z'),"
        " (4, '20260-01-01', 'z'), (2, '2026-01-01', 'y')"
    )
    for error in ("table public.t: column at is infinity", outside, outside):
        assert error in said
        assert not any(value in said for value in ("0044", "20260"))
        assert pair.here("t") == []
        shown = json.loads(pair.command(pair.leaf, "events", "show", "--json").out)["events"]
        (found,) = [one["event"] for one in shown if one["state"] == "halted"]
        assert pair.command(pair.leaf, "events", "skip", found).code == 0
        said = pair.line.run(pair.leaf, "worker", "--once").err
    assert pair.here("t") == [("t_2026_01_01", 2, "y")]
