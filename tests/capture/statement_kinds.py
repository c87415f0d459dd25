"""Statements that make the order of events or the captured rows difficult."""

from __future__ import annotations

from dataclasses import dataclass

from tests.capture.cases import Case, Copy, Mark, Statement, Undone, Write

FRUIT = "create table app.t (id int4 primary key, n int4, v text)"

ROWS = "insert into app.t (id, n, v) select g, g, 'v' || g from generate_series(1, 20) as g"

GENERATED = (
    "create table app.t (id int4 generated always as (n * 2) stored primary key, n int4, v text)",
)

PARTITIONS = (
    "create table app.t (id int4 primary key, n int4, v text) partition by range (id)",
    "create table app.low partition of app.t for values from (minvalue) to (10)",
    # columns in another order, with a hole among them
    "create table app.high (gone int4, v text, id int4 primary key, n int4)",
    "alter table app.high drop column gone",
    "alter table app.t attach partition app.high for values from (10) to (maxvalue)",
)


def trigger(when: str, body: str, name: str = "A_first", level: str = "row") -> str:
    """A trigger of the application that does something once, not for what it does itself."""
    answer = "coalesce(new, old)" if "before" in when and level == "row" else "null"
    return (
        "create function app.f() returns trigger language plpgsql as $f$ begin"
        f" if pg_trigger_depth() < 2 then {body} end if; return {answer}; end $f$;"
        f' create trigger "{name}" {when} on app.t for each {level} execute function app.f()'
    )


@dataclass(frozen=True)
class Kind:
    """made -- DDL besides or in place of that of the plain table; then statements, one by one."""

    statements: tuple[Statement, ...]
    made: tuple[str, ...] = (FRUIT,)
    tables: tuple[str, ...] = ("app.t",)
    version: int = 14
    together: bool = False
    rows: str = ROWS


NESTED = "update app.t set n = n + 100 where id = new.id;"

SELF = (FRUIT, "alter table app.t add up int4")

TREE = "update app.t set up = id / 2 where id > 1"

HANDED_ON = (
    "with gone as (delete from app.t where id in (3, 4) returning *)"
    " insert into app.t select id + 100, n, v from gone limit 1",
    "update app.t set n = null where id = 7",
    "with gone as (update app.t set n = -9 where id = 9 returning *)"
    " update app.t set n = 9 from gone where app.t.id = 7",
)

KINDS: dict[str, Kind] = {
    "few rows": Kind(("update app.t set n = n + 1 where id < 4", "delete from app.t where id = 3")),
    "many rows": Kind(
        (
            "insert into app.t select g, g, 'x' from generate_series(100, 1700) as g",
            "update app.t set n = -n",
            "delete from app.t where id % 3 = 0",
        )
    ),
    "a key is changed": Kind(("update app.t set id = 77 where id = 7",)),
    "all keys are changed": Kind(("update app.t set id = id + 100, v = 'moved'",)),
    "keys are swapped": Kind(
        ("update app.t set id = 21 - id", "update app.t set id = 21 - id, n = 0"),
        made=(
            "create table app.t (id int4 primary key deferrable initially deferred,"
            " n int4, v text)",
        ),
    ),
    "one key among many rows is changed": Kind(
        (
            "insert into app.t select g, g, 'x' from generate_series(21, 1300) as g",
            "update app.t set n = n + 1, id = case id when 5 then -5 else id end",
            "update app.t set n = n + 1, id = case id when 15 then -15 else id end",
            "update app.t set n = n + 1, id = case id when 900 then -900 else id end",
            "update app.t set n = 0",
        ),
    ),
    "keys are handed on": Kind(
        (
            "insert into app.t select g, g, 'x' from generate_series(21, 1000) as g",
            "delete from app.t where id < 10",
            "update app.t set id = id - 1",
            "update app.t set n = n + 1, id = case when id > 900 then id + 1000 else id end",
        ),
    ),
    "keys of text and number": Kind(
        (
            "update app.t set v = 'same'",
            "insert into app.t select g, g, 'x' from generate_series(21, 700) as g",
            "update app.t set n = -n where id > 2",
            "update app.t set code = upper(code) where id in (4, 600)",
            "update app.t set code = upper(code), n = 1",
        ),
        made=(
            "create table app.t (id int4, n int4, v text, code text default 'a',"
            " primary key (code, id))",
        ),
    ),
    "a key is changed by a BEFORE trigger": Kind(
        ("update app.t set n = 5 where id < 6",),
        made=(FRUIT, trigger("before update", "new.id := new.id + 50;")),
    ),
    "keys equal, texts not": Kind(
        ("update app.t set id = id * 1.00 where n < 9", "update app.t set id = id + 0.5, n = 1"),
        made=("create table app.t (id numeric primary key, n int4, v text)",),
    ),
    "ON CONFLICT DO UPDATE": Kind(
        (
            "insert into app.t select g, g, 'new' from generate_series(15, 40) as g"
            " on conflict (id) do update set v = excluded.v, n = app.t.n + 1",
        )
    ),
    "ON CONFLICT that changes the key": Kind(
        (
            "insert into app.t select g, g, 'new' from generate_series(19, 22) as g"
            " on conflict (id) do update set id = app.t.id + 500",
        )
    ),
    "ON CONFLICT DO NOTHING": Kind(
        ("insert into app.t select g from generate_series(15, 40) as g on conflict do nothing",)
    ),
    "MERGE": Kind(
        (
            "merge into app.t using generate_series(10, 40) as g on id = g"
            " when matched and g % 3 = 0 then delete when matched then update set n = -g"
            " when not matched then insert values (g, g, 'merged')",
        ),
        version=15,
    ),
    "CTE that deletes and inserts the same keys": Kind(
        (
            "with gone as (delete from app.t where id < 15 returning *)"
            " insert into app.t select id, n + 1, 'again' from gone where id % 2 = 0",
        )
    ),
    "CTE that deletes and inserts the same keys, and is told last": Kind(
        (
            "with gone as (delete from app.t where id < 15 returning *)"
            " insert into app.t select id, n + 1, 'again' from gone limit 3",
            "delete from app.t where v = 'again'",
        )
    ),
    "CTE that hands unique values on, and is told last": Kind(
        HANDED_ON,
        made=("create table app.t (id int4 primary key, n int4 unique, v text)",),
    ),
    "the same with a key whose text does not tell a row": Kind(
        HANDED_ON,
        made=("create table app.t (id float8 primary key, n int4 unique, v text)",),
    ),
    "CTE that changes keys and inserts them again": Kind(
        (
            "with gone as (update app.t set id = id + 100 where id < 15 returning id - 100 as id)"
            " insert into app.t select id, 7, 'again' from gone",
            "with gone as (update app.t set id = id + 200 where id < 15 returning id - 200 as id)"
            " insert into app.t select id, 7, 'again' from gone limit 1",
        )
    ),
    "CTE that inserts, updates and deletes": Kind(
        (
            "with i as (insert into app.t select g from generate_series(50, 70) as g returning id),"
            " u as (update app.t set v = 'u' where id % 2 = 0 returning id)"
            " delete from app.t where id % 2 = 1",
        )
    ),
    "COPY": Kind(
        (
            Copy(
                "copy app.t (id, v) from stdin", "".join(f"{n}\ta\\tb\\\\\n" for n in range(30, 60))
            ),
        )
    ),
    "UPDATE of a column that a trigger waits for": Kind(
        ("update app.t set v = 'x' where id < 5", "update app.t set n = 1 where id < 5"),
        made=(FRUIT, trigger("after update of v", NESTED)),
    ),
    "TRUNCATE between changes": Kind(
        (ROWS.replace("'v'", "'w'").replace("g, g,", "g + 50, g,"), "truncate app.t", ROWS),
        together=True,
    ),
    "TRUNCATE of several tables": Kind(
        ("truncate app.t, app.c", "insert into app.t values (1, 1, 'left')"),
        made=(FRUIT, "create table app.c (id int4 primary key)", "insert into app.c values (1)"),
        tables=("app.t", "app.c"),
    ),
    "partitions by their root": Kind(
        ("update app.t set n = n + 1", "delete from app.t where id % 2 = 0"), made=PARTITIONS
    ),
    "partitions by their leaf": Kind(
        (
            "update app.low set v = 'leaf'",
            "delete from app.high where id % 2 = 0",
            "insert into app.high (id, n, v) select g, g, 'x' from generate_series(60, 90) as g",
        ),
        made=PARTITIONS,
    ),
    "rows move between partitions": Kind(
        ("update app.t set id = 90 where id = 9", "update app.t set id = 40 - id, n = 0"),
        made=PARTITIONS,
    ),
    "MERGE into partitions": Kind(
        (
            "merge into app.t using generate_series(5, 40) as g on id = g"
            " when matched and g % 3 = 0 then delete when matched then update set id = g + 100"
            " when not matched then insert values (g, g, 'merged')",
        ),
        made=PARTITIONS,
        version=15,
    ),
    "statements on a parent and on its heir": Kind(
        (
            "insert into app.heir select g, g, 'heir' from generate_series(15, 40) as g",
            "update app.t set n = n + 1",
            "update only app.t set v = 'only'",
            "delete from app.heir where id % 2 = 0",
            "delete from app.t where id % 5 = 0",
        ),
        made=(FRUIT, "create table app.heir (primary key (id)) inherits (app.t)"),
        tables=("app.t", "app.heir"),
    ),
    "cascades to another table": Kind(
        (
            "insert into app.c select id, id from app.t",
            "update app.t set id = id + 100 where id > 5",
            "delete from app.t where n % 2 = 0",
        ),
        made=(
            FRUIT,
            "create table app.c (id int4 primary key,"
            " ref int4 references app.t on update cascade on delete cascade)",
        ),
        tables=("app.t", "app.c"),
    ),
    "CTE and a cascade that delete from the table itself": Kind(
        (
            "with gone as (delete from app.t where id < 9 returning *)"
            " insert into app.t select id, 0, 'again' from gone",
        ),
        made=(*SELF, "alter table app.t add foreign key (up) references app.t on delete cascade"),
    ),
    "CTE that deletes and inserts in a table that a cascade of the same query deletes from": Kind(
        (
            "insert into app.c select id, id from app.t",
            "with gone as (delete from app.c where id < 15 returning *),"
            " again as (insert into app.c select id, 20 from gone)"
            " delete from app.t where id in (3, 16)",
        ),
        made=(
            FRUIT,
            "create table app.c (id int4 primary key, ref int4 references app.t on delete cascade)",
        ),
        tables=("app.t", "app.c"),
    ),
    "cascades inside a table": Kind(
        (TREE, "delete from app.t where id = 2", "delete from app.t where id in (3, 7, 14)"),
        made=(
            *SELF,
            "alter table app.t add foreign key (up) references app.t on delete cascade",
        ),
    ),
    "key changes that cascade inside a table": Kind(
        (TREE, "update app.t set id = id + 100, n = 0 where id in (2, 4, 5)"),
        made=(
            *SELF,
            "alter table app.t add foreign key (up) references app.t on update cascade",
        ),
    ),
    "references inside a table set to NULL": Kind(
        (TREE, "delete from app.t where id < 6"),
        made=(
            *SELF,
            "alter table app.t add foreign key (up) references app.t on delete set null",
        ),
    ),
    "an AFTER trigger that changes the row again": Kind(
        ("update app.t set v = 'outer'", ROWS.replace("g, g,", "g + 30, g,")),
        made=(FRUIT, trigger("after insert or update", NESTED)),
    ),
    "the same, fired after ours": Kind(
        ("update app.t set v = 'outer'", ROWS.replace("g, g,", "g + 30, g,")),
        made=(FRUIT, trigger("after insert or update", NESTED, "z_last")),
    ),
    "an AFTER trigger that deletes the row": Kind(
        ("update app.t set n = n + 1",),
        made=(FRUIT, trigger("after update", "delete from app.t where id = new.id and n % 2 = 0;")),
    ),
    "an AFTER trigger that inserts the row again": Kind(
        ("delete from app.t where id < 9",),
        made=(FRUIT, trigger("after delete", "insert into app.t values (old.id, 0, 'back');")),
    ),
    "a BEFORE trigger that changes another row": Kind(
        ("update app.t set v = 'x' where id > 3",),
        made=(FRUIT, trigger("before update", "update app.t set n = n + 1 where id = 2;")),
    ),
    "a BEFORE trigger that suppresses rows": Kind(
        ("update app.t set v = 'x'", "delete from app.t where id > 2"),
        made=(
            FRUIT,
            trigger("before update or delete", "if old.id % 2 = 0 then return null; end if;"),
        ),
    ),
    "an AFTER trigger whose change is taken back": Kind(
        ("update app.t set v = 'x' where id < 9",),
        made=(
            FRUIT,
            trigger(
                "after update",
                "begin update app.t set n = n + 100 where id = new.id + 1;"
                " perform 1 / (new.id % 2); exception when division_by_zero then null; end;",
            ),
        ),
    ),
    "a statement trigger that changes the table": Kind(
        ("update app.t set v = 'x' where id < 9",),
        made=(FRUIT, trigger("after update", "update app.t set n = 0;", level="statement")),
    ),
    "a key that is generated": Kind(
        (
            "update app.t set v = 'x' where n < 5",
            "update app.t set n = n + 100 where id in (6, 8)",
            "update app.t set n = -n",
            "insert into app.t (n, v) select g, 'y' from generate_series(1000, 1700) as g",
            "update app.t set v = v || 'z'",
            "delete from app.t where n % 3 = 0",
        ),
        made=GENERATED,
        rows="insert into app.t (n, v) select g, 'v' || g from generate_series(1, 20) as g",
    ),
    "a key that is generated in part, swapped late": Kind(
        ("update app.t set n = 21 - n", "update app.t set v = 'w' where n < 9"),
        made=(
            "create table app.t (n int4, v text, id int4 generated always as (n * 2) stored,"
            " k int4 default 1, primary key (id, k) deferrable)",
        ),
        rows="insert into app.t (n, v) select g, 'v' || g from generate_series(1, 20) as g",
    ),
    "a key that is generated and nothing to set": Kind(
        ("update app.t set n = n", "delete from app.t where n < 5", "update app.t set n = -n"),
        made=(
            "create table app.t (id int4 generated always as (n * 2) stored, n int4,"
            " primary key (id, n))",
        ),
        rows="insert into app.t (n) select g from generate_series(1, 20) as g",
    ),
    "a savepoint rolled back": Kind(
        (
            Undone(("update app.t set id = id + 100", "delete from app.t where n < 5")),
            "update app.t set v = 'after' where id < 15",
        ),
        together=True,
    ),
}


def case_of(kind: Kind, options: tuple[str, ...], *, packed: bool = True) -> Case:
    writes = (
        (Write((kind.rows,)), Mark("replay"), Write(kind.statements))
        if kind.together
        else (Write((kind.rows,)), Mark("replay"), *(Write((one,)) for one in kind.statements))
    )
    return Case(
        0,
        tables=dict.fromkeys(kind.tables, options),
        made=kind.made,
        extras=(),
        steps=(*writes, Mark("replay")),
        packed=packed,
    )
