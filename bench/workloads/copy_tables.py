"""Tables of bench.copy: definitions, rows and checks of the copy.

accounts  pgbench_accounts with its key, an index and a foreign key to pgbench_branches
wide      jsonb, text, numeric, timestamptz, bytea, about 350 bytes a row, key and two indexes
many      tables of the same few columns, for what each table costs
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

BRANCH = 100_000


@dataclass(frozen=True)
class Case:
    """What is copied together.

    tables -- in the order in which they are added, the one that is measured last.
    create -- tables without anything around them.
    fill -- SQL with ``{rows}`` in it.
    around -- keys, indexes, foreign keys.
    """

    name: str
    tables: tuple[str, ...]
    create: str
    fill: str
    around: str

    @property
    def main(self) -> str:
        """The large table."""
        return self.tables[-1]

    def make(self, conn: psycopg.Connection, rows: int) -> None:
        """Tables with rows, as a source has them."""
        conn.execute(self.create.encode())
        conn.execute(self.fill.format(rows=rows, branch=BRANCH).encode())
        conn.execute(self.around.encode())

    def empty(self, conn: psycopg.Connection) -> None:
        """Empty tables with everything around them, as a target has them."""
        conn.execute(self.create.encode())
        conn.execute(self.around.encode())

    def drop(self, conn: psycopg.Connection) -> None:
        """As if they had never been there."""
        conn.execute(f"drop table if exists {', '.join(self.tables)}".encode())

    def contents(self, conn: psycopg.Connection) -> list[tuple[object, ...]]:
        """Rows and checksum of each table, and how many indexes and constraints there are."""
        found = [
            row
            for table in self.tables
            for row in conn.execute(
                f"select count(*), sum(hashtextextended(t::text, 0)) from public.{table} t".encode()
            )
        ]
        around = conn.execute(
            "select (select count(*) from pg_index where indrelid = any (%s::regclass[])"
            " and indisvalid),"
            " (select count(*) from pg_constraint where conrelid = any (%s::regclass[])"
            " and contype in ('p', 'f') and convalidated)",
            [list(self.tables), list(self.tables)],
        ).fetchall()
        return [*found, *around]


ACCOUNTS = Case(
    "accounts",
    ("pgbench_branches", "pgbench_accounts"),
    """
    create table public.pgbench_branches (bid int not null, bbalance int, filler char(88));
    create table public.pgbench_accounts (aid int not null, bid int, abalance int, filler char(84))
    """,
    """
    insert into public.pgbench_branches
    select i, 0, '' from generate_series(1, ({rows} - 1) / {branch} + 1) i;
    insert into public.pgbench_accounts
    select i, (i - 1) / {branch} + 1, 0, '' from generate_series(1, {rows}) i
    """,
    """
    alter table public.pgbench_branches add primary key (bid);
    alter table public.pgbench_accounts add primary key (aid);
    create index on public.pgbench_accounts (bid);
    alter table public.pgbench_accounts add foreign key (bid) references public.pgbench_branches
    """,
)

WIDE = Case(
    "wide",
    ("wide",),
    """
    create table public.wide (id int8 not null, doc jsonb, note text, price numeric(14, 4),
        at timestamptz, data bytea)
    """,
    """
    insert into public.wide
    select i, jsonb_build_object('id', i, 'tags', array['a' || i % 7, 'b' || i % 11], 'name',
            md5(i::text)),
        repeat(md5((i * 3)::text), 1 + i % 4), (i::int8 * 7919 % 1000003) / 100.0,
        timestamptz '2026-01-01' + i * interval '1 s', decode(repeat(md5((i * 5)::text), 3), 'hex')
    from generate_series(1, {rows}) i
    """,
    """
    alter table public.wide add primary key (id);
    create index on public.wide (at);
    create index on public.wide (price)
    """,
)

CASES = {case.name: case for case in (ACCOUNTS, WIDE)}


def many(tables: int) -> Case:
    """That many small tables; ``rows`` in each."""
    names = tuple(f"small_{n:05d}" for n in range(1, tables + 1))
    create = ";".join(f"create table public.{n} (id int8 not null, a int, b text)" for n in names)
    fill = ";".join(
        f"insert into public.{n} select i, i % 7, md5(i::text) from generate_series(1, {{rows}}) i"
        for n in names
    )
    around = ";".join(f"alter table public.{n} add primary key (id)" for n in names)
    return Case("many", names, create, fill, around)
