"""Changes that bench.replay captures and replays, identical in every source database.

rows    four tables (the fourth with a second unique index), 40 % inserts, 50 % updates with a fifth
        of them on 2,000 hot keys, 10 % deletes, tables and keys at random, ten rows a transaction
packed  the same tables and shares, but statements of 1,000 neighbouring rows, each a transaction
hot     one table; inserts at its end, updates and deletes among its newest 10,000 rows, ten rows a
        transaction

A procedure in the database makes them from a seed, so no client is waited for, and two databases
with the same rows get the same changes.
"""

from __future__ import annotations

import psycopg

WORKLOADS = ("rows", "packed", "hot")
HOT_KEYS = 2_000
NEWEST = 10_000
STATEMENT_ROWS = 1_000

_COLUMNS = "id bigint primary key, a int, b text, c numeric, d timestamptz, e bool"
_ROW = (
    "{key}, {key} % 1000, 'row ' || {key}, {key} / 7.0,"
    " timestamptz '2024-01-01' + {key} * interval '1 s', {key} % 2 = 0"
)


def tables(workload: str) -> list[str]:
    """The tables of a workload."""
    return ["t1"] if workload == "hot" else [f"t{n}" for n in range(1, 5)]


def create(conn: psycopg.Connection, workload: str, rows: int) -> None:
    """Makes and fills the tables, ``rows`` in each."""
    for table in tables(workload):
        conn.execute(f"create table {table} ({_COLUMNS})")
        conn.execute(
            f"insert into {table} select {_ROW.format(key='i')} from generate_series(1, {rows}) i"
        )
    if workload != "hot":
        conn.execute("create unique index on t4 (d)")
    conn.execute(
        f"create procedure public.change(i_seed float8, i_events int) language plpgsql\n"
        f"as $$ {_procedure(workload)} $$"
    )
    conn.execute("vacuum analyze")


def change(conn: psycopg.Connection, seed: float, events: int) -> None:
    """Changes at least ``events`` rows, committing in between."""
    conn.execute("call public.change(%s, %s)", [seed, events])


def contents(conn: psycopg.Connection, workload: str) -> list[tuple[object, ...]]:
    """Count and hash of every table."""
    return [
        row
        for table in tables(workload)
        for row in conn.execute(
            f"select count(*), sum(hashtextextended({table}::text, 0)) from {table}"
        )
    ]


def _procedure(workload: str) -> str:
    names = tables(workload)
    tops = "".join(
        f"v_top[{n}] := (select coalesce(max(id), 0) from public.{name});\n"
        for n, name in enumerate(names, 1)
    )
    statement = _packed if workload == "packed" else _single
    branches = "els".join(
        f"if v_table = {n} then\n{statement(name, workload)}\n" for n, name in enumerate(names, 1)
    )
    return f"""
    declare
        v_top int8[] := array_fill(0::int8, array[{len(names)}]);
        v_table int;
        v_what float8;
        v_key int8;
        v_low int8;
        v_count int8;
        v_done int8 := 0;
    begin
        perform setseed(i_seed);
        {tops}
        while v_done < i_events loop
            for v_turn in 1 .. {1 if workload == "packed" else 10} loop
                v_table := 1 + floor(random() * {len(names)});
                v_what := random();
                v_key := 0;
                {branches} end if;
                get diagnostics v_count = row_count;
                v_done := v_done + v_count;
            end loop;
            commit;
        end loop;
    end;"""


def _single(table: str, workload: str) -> str:
    n = int(table[1:])
    if workload == "hot":
        key = f"greatest(1, v_top[{n}] - floor(random() * {NEWEST})::int8)"
    else:
        key = (
            f"1 + floor(random() * case when v_what < 0.5 then {HOT_KEYS}"
            f" else v_top[{n}] end)::int8"
        )
    return f"""
    if v_what < 0.4 then
        v_top[{n}] := v_top[{n}] + 1;
        v_key := v_top[{n}];
        insert into public.{table} select {_ROW.format(key="v_key")};
    elsif v_what < 0.9 then
        v_key := {key};
        update public.{table} set a = a + 1, c = c + 0.1 where id = v_key;
    else
        v_key := {key};
        delete from public.{table} where id = v_key;
    end if;"""


def _packed(table: str, workload: str) -> str:
    n = int(table[1:])
    some = f"id between v_low and v_low + {STATEMENT_ROWS - 1}"
    return f"""
    v_low := 1 + floor(random() * greatest(1, v_top[{n}] - {STATEMENT_ROWS}))::int8;
    if v_what < 0.4 then
        v_low := v_top[{n}] + 1;
        v_top[{n}] := v_top[{n}] + {STATEMENT_ROWS};
        insert into public.{table}
        select {_ROW.format(key="i")} from generate_series(v_low, v_top[{n}]) i;
    elsif v_what < 0.9 then
        update public.{table} set a = a + 1, c = c + 0.1 where {some};
    else
        delete from public.{table} where {some};
    end if;"""
