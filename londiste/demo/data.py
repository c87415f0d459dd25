"""Demo data: a shop with difficult types and constraints, and the tables of pgbench.

Foreign keys that cascade, names that need quotes, composite and textual keys, jsonb, arrays,
numerics of any size, infinite timestamps, bytea; two tables without a key that only grow
(rows that arrived twice would show); and three tables that always carry the same tokens,
because every transaction that writes one of them writes all three.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import psycopg

from londiste.db.connstr.program_dsn import arguments_without_secrets
from londiste.embedded.postgres import Cluster
from londiste.errors import ServerBinariesMissing, StateError

SHOP_TABLES: tuple[str, ...] = (
    "shop.customers",
    "shop.products",
    "shop.orders",
    "shop.Order Lines",
    "shop.payments",
    'Odd Names.Price List v1.0 "net"',
    "shop.token_a",
    "shop.token_b",
    "shop.token_c",
    "shop.audit",
)
PGBENCH_TABLES: tuple[str, ...] = (
    "public.pgbench_accounts",
    "public.pgbench_branches",
    "public.pgbench_history",
    "public.pgbench_tellers",
)
#: All of them, named as the queue names tables: unquoted, ``schema.table``.
TABLES: tuple[str, ...] = SHOP_TABLES + PGBENCH_TABLES
#: These have no key; rows are only ever added.
APPEND_ONLY: tuple[str, ...] = ("shop.audit", "public.pgbench_history")
#: The table that the demo removes and adds again: others do not refer to it.
REMOVED = "shop.payments"
#: Options of ``add-table`` that these tables need: two of them have no key.
ADD_OPTIONS: tuple[str, ...] = ("--insert-only",)

REGIONS: tuple[str, ...] = ("north", "south", "east", "west")
TOKENS = 8

_SCHEMA = '''
create schema shop;
create schema "Odd Names";
create sequence shop.customer_number;
create sequence shop.order_number;

create table shop.customers (
    id bigint primary key default nextval('shop.customer_number'),
    name text not null,
    email varchar(200),
    born date,
    tags text[] not null default '{}',
    profile jsonb not null default '{}',
    active boolean not null default true,
    created timestamptz not null default now()
);

create table shop.products (
    sku text primary key,
    title text not null,
    price numeric(12,2) not null check (price >= 0),
    weight numeric,
    rating double precision,
    dimensions integer[],
    attributes jsonb,
    picture bytea
);

create table shop.orders (
    region text not null,
    id bigint not null default nextval('shop.order_number'),
    customer bigint not null references shop.customers on update cascade on delete cascade,
    placed timestamp with time zone not null default now(),
    wanted timestamp without time zone,
    state char(8) not null default 'open',
    primary key (region, id)
);
create index on shop.orders (customer);

create table shop."Order Lines" (
    "Region" text not null,
    "Order" bigint not null,
    "Line" smallint not null,
    "Product" text not null references shop.products on update cascade on delete cascade,
    "Qty" numeric not null,
    "Unit Price" numeric(12,2) not null,
    "Note ""as given""" text,
    total numeric generated always as ("Qty" * "Unit Price") stored,
    primary key ("Region", "Order", "Line"),
    foreign key ("Region", "Order") references shop.orders on update cascade on delete cascade
);
create index on shop."Order Lines" ("Product");

create table shop.payments (
    id uuid primary key,
    region text not null,
    order_id bigint not null,
    amount numeric not null,
    paid_at timestamptz not null,
    valid_for interval,
    receipt bytea,
    foreign key (region, order_id) references shop.orders on update cascade on delete cascade
);
create index on shop.payments (region, order_id);

create table "Odd Names"."Price List v1.0 ""net""" (
    "Key" integer primary key,
    "select" text,
    "UPPER case" numeric,
    "naïve.dotted" text[]
);

create table shop.token_a (slot integer primary key, token bigint not null);
create table shop.token_b (slot integer primary key, token bigint not null);
create table shop.token_c (slot integer primary key, token bigint not null);

create table shop.audit (token bigint not null, at timestamptz not null default now(), what text);
'''

_FILL = '''
insert into shop.customers (id, name, email, born, tags, profile, created)
select i,
    'Customer ' || i || case when i % 7 = 0 then E' \\\\ "quoted" ''x'' ' else '' end,
    case when i % 5 > 0 then 'c' || i || '@example.org' end,
    date '1950-01-01' + (i * 37 % 20000),
    case i % 3 when 0 then '{}'::text[] when 1 then array['new', 'a,b', 'c"d']
        else array['vip', null, ''] end,
    jsonb_build_object('visits', i % 100, 'home', jsonb_build_object('city', 'Город ' || i % 50)),
    timestamptz '2020-01-01 00:00:00Z' + i * interval '17 minutes 0.123456 seconds'
from generate_series(1, {n} / 4) as s(i);

insert into shop.products
select 'SKU-' || lpad(i::text, 5, '0'), 'Product ' || i, (i * 7919 % 100000) / 100.0,
    case i % 4 when 0 then 'NaN'::numeric when 1 then 10::numeric ^ (i % 60) * 1.5
        when 2 then 10::numeric ^ -(i % 30) end,
    case when i % 9 = 0 then 'Infinity'::float8 else sqrt(i) end,
    case i % 3 when 0 then array[[i, 2], [3, null]] else array[i % 10, 20] end,
    case when i % 5 > 0 then
        jsonb_build_object('colour', null, 'sizes', jsonb_build_array(1, 2.50, 'L')) end,
    decode(repeat(md5(i::text), i % 20), 'hex')
from generate_series(1, {n} / 20) as s(i);

insert into shop.orders (region, id, customer, placed, wanted, state)
select (array['north', 'south', 'east', 'west'])[1 + i % 4], i, 1 + i * 31 % ({n} / 4),
    timestamptz '2023-01-01 12:00:00Z' + i * interval '5 minutes',
    case i % 10 when 0 then 'infinity' when 1 then null
        else timestamp '2023-02-01 00:00' + i * interval '1 hour' end,
    case i % 3 when 0 then 'open' when 1 then 'paid' else 'sent' end
from generate_series(1, {n}) as s(i);

insert into shop."Order Lines"
select region, id, line, 'SKU-' || lpad((1 + (id * 13 + line) % ({n} / 20))::text, 5, '0'),
    line * 1.5, (id % 1000) / 10.0, case when id % 6 = 0 then E'two\\nlines\\tand ''quotes'' .' end
from shop.orders, generate_series(1, 3) as s(line);

insert into shop.payments
select md5('payment' || id)::uuid, region, id, (id % 5000) / 3.0, placed + interval '1 day',
    make_interval(months => (id % 14)::int, hours => -(id % 30)::int, secs => 0.5),
    decode(md5(id::text), 'hex')
from shop.orders where id % 2 = 0;

insert into "Odd Names"."Price List v1.0 ""net"""
select i, case i % 3 when 0 then 'NULL' when 1 then '' end, i / 7.0, array['x.' || i, null]
from generate_series(1, 500) as s(i);

insert into shop.token_a select i, 0 from generate_series(1, {tokens}) as s(i);
insert into shop.token_b select * from shop.token_a;
insert into shop.token_c select * from shop.token_a;
insert into shop.audit (token, what) select -i, 'before' from generate_series(1, 1000) as s(i);

select setval('shop.customer_number', {n}), setval('shop.order_number', {n});
'''

_PGBENCH = """
create table pgbench_branches (
    bid int not null primary key, bbalance int, filler char(88)) with (fillfactor = 100);
create table pgbench_tellers (
    tid int not null primary key, bid int references pgbench_branches,
    tbalance int, filler char(84)) with (fillfactor = 100);
create table pgbench_accounts (
    aid int not null primary key, bid int references pgbench_branches,
    abalance int, filler char(84)) with (fillfactor = 100);
create table pgbench_history (
    tid int references pgbench_tellers, bid int references pgbench_branches,
    aid int references pgbench_accounts, delta int, mtime timestamp, filler char(22));
insert into pgbench_branches select i, 0, null from generate_series(1, {scale}) as s(i);
insert into pgbench_tellers
select i, (i - 1) / 10 + 1, 0, null from generate_series(1, {scale} * 10) as s(i);
insert into pgbench_accounts
select i, (i - 1) / 100000 + 1, 0, '' from generate_series(1, {scale} * 100000) as s(i);
"""


def create(cluster: Cluster, dbname: str, *, orders: int = 20_000, scale: int = 5) -> None:
    """Creates and fills all tables in a database of ``cluster``.

    orders -- rows of shop.orders; the whole shop has about 6 times as many, 25 MB for 20,000.
    scale -- of pgbench: 100,000 accounts and 13 MB each.
    """
    with psycopg.connect(cluster.dsn(dbname), autocommit=True) as conn:
        create_schema(conn)
        fill(conn, orders=orders)
    try:
        program: Path | None = cluster.program("pgbench")
    except ServerBinariesMissing:
        program = None
    create_pgbench(cluster.dsn(dbname), scale, program, cluster.environment())
    with psycopg.connect(cluster.dsn(dbname), autocommit=True) as conn:
        conn.execute("analyze")  # sizes and row estimates for the progress bars


def create_schema(conn: psycopg.Connection) -> None:
    """Creates the shop's schemas, sequences and empty tables, on a root or a leaf."""
    conn.execute(_SCHEMA)


def fill(conn: psycopg.Connection, *, orders: int = 20_000) -> None:
    """Fills the shop's tables; the same rows every time."""
    numbers = {"{n}": max(orders, 400), "{tokens}": TOKENS}
    statements = _FILL
    for name, number in numbers.items():
        statements = statements.replace(name, str(number))
    conn.execute("set timezone = 'UTC'")
    conn.execute(statements)


def create_pgbench(
    dsn: str, scale: int, program: Path | None, environment: dict[str, str] | None = None
) -> None:
    """Creates the tables of pgbench with ``program``, or by SQL if it is None.

    Raises StateError when the program fails.
    """
    if program is None:
        with psycopg.connect(dsn) as conn:
            conn.execute(_PGBENCH.format(scale=scale))
        return
    with arguments_without_secrets(dsn) as (shown, complete):
        done = subprocess.run(
            [program, "-i", "-q", "--foreign-keys", "-s", str(scale), shown],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**complete, **(environment or {})},
        )
    if done.returncode != 0:
        raise StateError("pgbench could not create its tables", detail=done.stderr.strip()[-400:])


def torn_tokens(conn: psycopg.Connection) -> int:
    """Slots whose three tokens differ as this statement sees them: halves of a transaction.

    Always 0 on the root, and on a leaf once all three tables are in sync.
    """
    return _number(
        conn,
        "select count(*) from shop.token_a a full join shop.token_b b using (slot)"
        " full join shop.token_c c using (slot)"
        " where a.token is distinct from b.token or b.token is distinct from c.token",
    )


def repeated_rows(conn: psycopg.Connection) -> int:
    """Duplicate rows of shop.audit: changes applied twice."""
    return _number(conn, "select count(*) - count(distinct token) from shop.audit")


def audit_rows(conn: psycopg.Connection) -> int:
    """Rows of shop.audit that the writer has added: one per committed transaction."""
    return _number(conn, "select count(*) from shop.audit where token > 0")


def _number(conn: psycopg.Connection, statement: str) -> int:
    row = conn.execute(statement).fetchone()
    return int(row[0]) if row else 0
