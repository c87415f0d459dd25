"""Parts shared by tests of ``londiste replicate``: databases, the command, and what it left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from tests.fixtures.cluster import Database, Server
from tests.support.scenarios.harness import Cascade
from tests.support.scenarios.processes import Done, Process
from tests.support.waiting import wait_for

#: A schema with names that need quotes, and a little of everything that a table can need.
SCHEMA = '''
create schema "My ""shop""";
create type "My ""shop"""."Mood" as enum ('good', 'bad');
create table "My ""shop"""."Order Line" (
    id serial primary key, "Mood" "My ""shop"""."Mood" default 'good', "what's up" text);
create table public.customer (id bigint generated always as identity primary key, name text);
create table public.history (what text, at timestamptz default now());
insert into "My ""shop"""."Order Line" ("what's up") select 'n ' || g from generate_series(1, 50) g;
insert into public.customer (name) select 'customer ' || g from generate_series(1, 100) g;
insert into public.history (what) values ('begun'), ('begun');
'''
TABLES = ('My "shop".Order Line', "public.customer", "public.history")

#: Everything in a catalog that a command could leave: relations, columns, functions, types,
#: triggers, constraints, schemas, comments.
CATALOG = """
select 'relation', n.nspname || '.' || c.relname, c.relkind::text
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
union all select 'column', a.attrelid::regclass::text, a.attname || ' ' || a.attnum
from pg_attribute a join pg_class c on c.oid = a.attrelid
join pg_namespace n on n.oid = c.relnamespace
where n.nspname !~ '^pg_' and n.nspname <> 'information_schema' and c.relkind = 'r'
union all select 'function', p.oid::regprocedure::text, md5(p.prosrc)
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
union all select 'trigger', t.tgrelid::regclass::text, t.tgname from pg_trigger t
union all select 'constraint', c.conrelid::regclass::text, c.conname
from pg_constraint c where c.conrelid <> 0 and c.connamespace::regnamespace::text !~ '^pg_'
and c.connamespace <> 'information_schema'::regnamespace
union all select 'type', t.typname, n.nspname from pg_type t
join pg_namespace n on n.oid = t.typnamespace
where n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
union all select 'schema', n.nspname, coalesce(n.nspacl::text, '') from pg_namespace n
where n.nspname !~ '^pg_(temp|toast)'
union all select 'extension', x.extname, '' from pg_extension x
order by 1, 2, 3
"""

#: Nothing waits long.
FAST = {"LONDISTE_POLL_INTERVAL": "0.1", "LONDISTE_MAX_RETRY_DELAY": "0.5"}


def catalog(database: Database) -> list[tuple[object, ...]]:
    """What is in a database, besides rows."""
    return database.execute(CATALOG)


def odd_database(cascade: Cascade, name: str, on: Server, more: str = "") -> Database:
    """A database with a name that needs quotes; dropped with the test.

    more -- of CREATE DATABASE: its encoding, for example.
    """
    made = cascade.make_database(on=on)
    server = made.cluster
    server.drop_database(name)
    made.drop()
    if more:
        with psycopg.connect(server.dsn("postgres"), autocommit=True) as conn:
            conn.execute(f'create database "{name}" {more}'.encode())
    else:
        server.create_database(name)
    made.name = name
    return made


@dataclass
class Replicate:
    """The command of one test."""

    cascade: Cascade
    source: Database
    target: Database
    also: Sequence[Database] = ()
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.dsns = [one.dsn for one in (self.source, self.target, *self.also)]

    def _words(self, args: Sequence[str]) -> list[str]:
        found = ["replicate", *self.dsns[:2]]
        for dsn in self.dsns[2:]:
            found += ["--also", dsn]
        return [*found, *args]

    def _environment(self, env: dict[str, str]) -> dict[str, str]:
        state = self.cascade.directory / "state"
        return {**FAST, "XDG_STATE_HOME": str(state), **self.env, **env}

    @property
    def state(self) -> Path:
        """The directory of logs and process ids."""
        return self.cascade.directory / "state" / "londiste"

    def run(self, *args: str, accept: Sequence[int] | None = (0,), **env: str) -> Done:
        """Runs the command to its end."""
        return self.cascade.londiste(
            None, *self._words(args), accept=accept, **self._environment(env)
        )

    def start(self, *args: str, **env: str) -> Process:
        """The command as a process that stays."""
        return self.cascade.processes.start(
            "replicate",
            self.cascade.command(None, *self._words(args)),
            self._environment(env),
        )


def wait_rows(database: Database, statement: str, count: int) -> None:
    """Until a query of a target returns so many; its table may be missing yet."""

    def there() -> bool:
        try:
            return bool(database.value(statement) == count)
        except Exception:
            return False

    wait_for(there, timeout=60, what=f"{count} by {statement}")
