"""Parts shared by migration tests: commands, an application that follows the switch, a proxy."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg import conninfo, sql

from tests.fixtures.cluster import Database
from tests.support.scenarios.harness import Cascade
from tests.support.scenarios.processes import Done, Process
from tests.support.waiting import wait_for

#: The tables of pgbench, small, and without a key on the last.
BANK = """
create table pgbench_branches (bid int primary key, bbalance int, filler char(88));
create table pgbench_tellers (tid int primary key, bid int, tbalance int, filler char(84));
create table pgbench_accounts (aid int primary key, bid int, abalance int, filler char(84));
create table pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp);
insert into pgbench_branches values (1, 0, '');
insert into pgbench_tellers select g, 1, 0, '' from generate_series(1, 10) g;
insert into pgbench_accounts select g, 1, 0, '' from generate_series(1, 20000) g;
"""
BANK_TABLES = tuple(
    f"public.pgbench_{name}" for name in ("branches", "tellers", "accounts", "history")
)


def owner(database: Database) -> str:
    """A connection string of the owner of the database, who is no superuser."""
    password = secrets.token_hex(12)
    role = f"owner_of_{database.name}"
    with psycopg.connect(database.dsn, autocommit=True) as conn:
        conn.execute(
            sql.SQL("create role {} login password {}").format(
                sql.Identifier(role), sql.Literal(password)
            )
        )
        conn.execute(
            sql.SQL("alter database {} owner to {}").format(
                sql.Identifier(database.name), sql.Identifier(role)
            )
        )
    return conninfo.make_conninfo(database.dsn, user=role, password=password)


#: Accounts of pgbench in a branch.
PER_BRANCH = 100_000


def scale() -> int:
    """The size of the bank that pgbench makes; 0: a small one, made without it."""
    return int(os.environ.get("LONDISTE_TEST_SCALE") or 0)


def make_bank(dsn: str, programs: Path) -> Callable[[psycopg.Connection, int], None]:
    """The tables of pgbench in a database, and the transaction on them."""
    if not scale():
        with psycopg.connect(dsn) as conn:
            conn.execute(BANK.encode())
        return bank
    subprocess.run(
        [programs / "pgbench", "-i", "-q", "-s", str(scale()), dsn], check=True, capture_output=True
    )
    return functools.partial(bank, branches=scale(), accounts=scale() * PER_BRANCH)


def bank(conn: psycopg.Connection, n: int, *, branches: int = 1, accounts: int = 20_000) -> None:
    """The transaction of pgbench; the history has as many rows as there were transactions."""
    teller, account, delta = n % 10 + 1, n * 7919 % accounts + 1, n % 201 - 100
    branch = n % branches + 1
    for statement, key in (
        ("update pgbench_accounts set abalance = abalance + %s where aid = %s", account),
        ("update pgbench_tellers set tbalance = tbalance + %s where tid = %s", teller),
        ("update pgbench_branches set bbalance = bbalance + %s where bid = %s", branch),
    ):
        conn.execute(statement, [delta, key])
    conn.execute(
        "insert into pgbench_history values (%s, %s, %s, %s, now())",
        [teller, branch, account, delta],
    )


def rename(conn: psycopg.Connection, n: int) -> None:
    """An update of a table with a trigger."""
    conn.execute("update app.customer set name = name || '.' where id = %s", [n % 100 + 1])


#: A little of everything that a move must not forget.
SCHEMA = """
create schema app;
create type app.mood as enum ('good', 'bad');
create function app.touch() returns trigger language plpgsql
as $$begin new.touched := coalesce(new.touched, 0) + 1; return new; end$$;
create table app.customer (
    id serial primary key, name text not null, mood app.mood default 'good', touched int);
create table app.line (
    id bigint generated always as identity primary key,
    customer int not null references app.customer, quantity int check (quantity > 0));
create table app.history (what text, at timestamptz default now());
create trigger touch before insert or update on app.customer
    for each row execute function app.touch();
create sequence app.ticket start 100;
create view app.lines as select customer, count(*) as lines from app.line group by 1;
create materialized view app.totals as
    select customer, sum(quantity) as quantity from app.line group by 1;
create unique index on app.totals (customer);
create function app.next_ticket() returns bigint language sql
as $$ select nextval('app.ticket') $$;
create function app.name_of(c app.customer) returns text language sql as $$ select c.name $$;
insert into app.customer (name) select 'customer ' || g from generate_series(1, 100) g;
insert into app.line (customer, quantity) select 1 + g % 100, g from generate_series(1, 500) g;
insert into app.history (what) select 'begun' from generate_series(1, 3);
refresh materialized view app.totals;
create table public.written (
    n bigint primary key, id bigserial unique, ticket bigint not null, at text not null);
"""
TABLES = ("app.customer", "app.line", "app.history", "public.written")


@dataclass
class Move:
    """The commands of one move."""

    cascade: Cascade
    old: str
    new: str
    env: dict[str, str] = field(default_factory=dict)

    def environment(self, **more: str) -> dict[str, str]:
        """Where the databases are, and that nothing waits long."""
        return {
            "LONDISTE_FROM_DB": self.old,
            "LONDISTE_TO_DB": self.new,
            "LONDISTE_POLL_INTERVAL": "0.1",
            "LONDISTE_MAX_RETRY_DELAY": "0.5",
            **self.env,
            **more,
        }

    def run(self, *args: str, accept: Sequence[int] | None = (0,), **env: str) -> Done:
        """``londiste migrate ARGS``."""
        return self.cascade.londiste(
            None, "migrate", *args, accept=accept, seconds=300, **self.environment(**env)
        )

    def json(self, *args: str, accept: Sequence[int] = (0,)) -> Any:
        """What a command says as JSON."""
        return json.loads(self.run(*args, "--json", accept=accept).out)

    def start(self, *args: str, command: Sequence[str] = ("start",)) -> Process:
        """``londiste migrate start``, or another command that stays."""
        return self.cascade.processes.start(
            "migrate", self.cascade.command(None, "migrate", *command, *args), self.environment()
        )

    def to_the_end(self, *args: str, steps: int = 1) -> int:
        """Gives a command again and again that dies after some steps; how often it died.

        A step that is taken again in any case is passed the next time.
        """
        more, seen = 0, set[str]()
        for died in range(80):
            crash = f"plan.after-step:{steps + more}"
            done = self.run(*args, accept=None, LONDISTE_CRASH=crash)
            if done.code == 0:
                return died
            assert done.code == -9, str(done)
            more = more + 1 if done.err in seen else max(0, more - 1)
            seen.add(done.err)
        raise AssertionError(f"migrate {args} does not get on")

    def wait_in_step(
        self,
        database: Database,
        count: int,
        seconds: float = 120.0,
        process: Process | None = None,
    ) -> None:
        """Until so many tables of the new database are in step, and their foreign keys are there.

        ``process`` must not end before.
        """

        def reached() -> bool:
            assert process is None or process.running, process.said()
            with contextlib.suppress(psycopg.errors.UndefinedTable):
                ok = database.value(
                    "select count(*) from londiste.table_info where local and merge_state = 'ok'"
                    " and not exists (select from pgq_node.node_info n,"
                    " londiste.get_valid_pending_fkeys(n.queue_name))"
                )
                return bool(ok == count)
            return False

        self.cascade.wait(reached, f"{count} tables in step", seconds)


class Application:
    """Writes on, whatever happens to its connection, and knows what it was promised.

    places -- connection strings; a transaction that is refused or broken goes to the next one.
    work -- what else a transaction does, given its number.
    ids, tickets -- of two sequences, in the order of the commits.
    """

    def __init__(
        self,
        places: Sequence[str],
        work: Callable[[psycopg.Connection, int], None] = rename,
    ) -> None:
        self._places = list(places)
        self._work = work
        self.committed = 0
        self.ids: list[int] = []
        self.tickets: list[int] = []
        self.error: BaseException | None = None
        #: The longest time in seconds between two commits; may be set to 0 again.
        self.pause = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="application", daemon=True)

    def __enter__(self) -> Application:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait(self, count: int) -> None:
        """Until so many more transactions are confirmed."""
        target = self.committed + count

        def reached() -> bool:
            assert self.error is None, f"the application has failed: {self.error!r}"
            return self.committed >= target

        wait_for(reached, timeout=120, what=f"{count} more transactions")

    def stop(self) -> int:
        """Ends it; how many transactions were confirmed."""
        self._stop.set()
        self._thread.join(30)
        assert self.error is None, f"the application has failed: {self.error!r}"
        return self.committed

    def follow(self, places: Sequence[str]) -> None:
        """From its next connection on it goes elsewhere: another password behind one address."""
        self._places = list(places)

    def assert_numbers_go_up(self) -> None:
        """No number of a sequence came twice, and none came back."""
        for numbers in (self.ids, self.tickets):
            assert numbers == sorted(set(numbers))

    def _run(self) -> None:
        try:
            self._write()
        except BaseException as error:
            self.error = error

    def _write(self) -> None:
        place = 0
        conn: psycopg.Connection | None = None
        n, before = 1, time.monotonic()
        while not self._stop.is_set():
            where = self._places[place % len(self._places)]
            try:
                if conn is None or conn.closed:
                    conn = psycopg.connect(where, connect_timeout=5)
                    row = conn.execute(
                        "select id, ticket from public.written where n = %s", [n]
                    ).fetchone()
                    conn.rollback()
                else:
                    row = None
                # The answer of a commit may be lost, and the commit not.
                if row is None:
                    with conn.transaction():
                        row = conn.execute(
                            "insert into public.written (n, ticket, at)"
                            " values (%s, app.next_ticket(), %s) returning id, ticket",
                            [n, f"place {place % len(self._places)}"],
                        ).fetchone()
                        self._work(conn, n)
            except psycopg.Error as error:
                if error.sqlstate not in (None, "LD102", "57P01", "25006", "08006"):
                    raise
                if conn is not None:
                    conn.close()
                conn = None
                place += 1
                self._stop.wait(0.01)
                continue
            assert row is not None
            now = time.monotonic()
            self.pause, before = max(self.pause, now - before), now
            self.ids.append(row[0])
            self.tickets.append(row[1])
            self.committed = n
            n += 1
            self._stop.wait(0.03)
        if conn is not None:
            conn.close()


class Proxy:
    """A TCP proxy as applications have in front of a database: one address, a target that moves."""

    def __init__(self, target: str) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._lock = threading.Lock()
        self._target = _address(target)
        self._closed = False
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def dsn(self, target: str) -> str:
        """The connection string of ``target`` with the address of the proxy."""
        host, port = self._listener.getsockname()
        return conninfo.make_conninfo(target, host=host, port=port)

    def move(self, target: str) -> None:
        """New connections lead to another server, old ones are cut."""
        with self._lock:
            self._target = _address(target)
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            _cut(pair)

    def close(self) -> None:
        self._closed = True
        self._listener.close()
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            _cut(pair)

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                target = self._target
            try:
                server = socket.create_connection(target, timeout=10)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self._lock:
                if target != self._target:
                    _cut((client, server))
                    continue
                self._pairs.add((client, server))
            threading.Thread(target=_pump, args=(client, server), daemon=True).start()


def _address(dsn: str) -> tuple[str, int]:
    parts = conninfo.conninfo_to_dict(dsn)
    return str(parts["host"]), int(parts["port"] or 5432)


def _cut(pair: tuple[socket.socket, socket.socket]) -> None:
    for one in pair:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _pump(client: socket.socket, server: socket.socket) -> None:
    """Bytes both ways until one side ends."""
    with client, server, contextlib.suppress(OSError):
        while True:
            ready, _, _ = select.select([client, server], [], [])
            for one in ready:
                data = one.recv(65536)
                if not data:
                    return
                (server if one is client else client).sendall(data)
