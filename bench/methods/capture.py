"""Capture methods of bench.capture: Londiste's triggers, the C triggers, Slony, native.

A way has tables of its own in a database of its own kind, so that no way pays for the triggers,
dead rows or event tables of another.  ``u`` is updated and ``i`` inserted into row by row, ``b``
takes statements of many rows, ``m`` the mixed changes that are replayed to check.
"""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg

from bench.support import common, cpu
from bench.support.peers import Peers
from londiste.changes import decode
from londiste.changes.types import Op, RowChange
from londiste.db.connection import session
from londiste.embedded.postgres import Cluster
from londiste.install.apply import install
from londiste.pgq.types import Event

#: Rows of table ``u``.
ROWS = 100_000
TABLES = ("u", "i", "b", "m")
COLUMNS = "id bigint primary key, a int, b text, c numeric, d timestamptz, e bool"
VALUES = (
    "i, i % 1000, 'row ' || i, i / 7.0, timestamptz '2024-01-01' + i * interval '1 s', i % 2 = 0"
)


class Way:
    """Without capture: the base of the others."""

    name = "plain"
    #: Rows are divided by this where a way is so slow that fewer show it as well.
    slow = 1
    #: Whether changes are captured by triggers: only then there are events and bulk figures.
    trigger = False

    def __init__(self, server: Cluster, database: str, prefix: str) -> None:
        """prefix -- what the names of the way's tables begin with."""
        self.server = server
        self.database = database
        self.prefix = prefix

    def connect(self) -> psycopg.Connection:
        """An autocommit session in the way's database."""
        return common.connect(self.server, self.database)

    def table(self, name: str) -> str:
        """The way's table of that role."""
        return f"{self.prefix}_{name}"

    def prepare(self) -> None:
        """Makes and fills the tables, starts the capture."""
        with self.connect() as conn:
            for name in TABLES:
                conn.execute(f"create table {self.table(name)} ({COLUMNS})")
            conn.execute(f"create sequence {self.prefix}_seq")
            conn.execute(
                f"insert into {self.table('u')} select {VALUES} from generate_series(1, {ROWS}) i"
            )
            conn.execute("vacuum analyze")
            for name in TABLES:
                self.attach(conn, self.table(name))

    def attach(self, conn: psycopg.Connection, table: str) -> None:
        """Starts the capture of a table."""

    @contextlib.contextmanager
    def running(self, table: str) -> Iterator[None]:
        """Whatever has to run beside the writers while they are measured; checks at the end."""
        yield

    def clear(self) -> None:
        """Removes the events, so that the next run finds empty tables."""

    def changes(self) -> int | None:
        """Row changes in the events since ``clear``; None for a way without events."""
        return None

    def tidy(self, table: str) -> None:
        """The table as it was, for the next run."""
        with self.connect() as conn:
            if table == self.table("u"):
                conn.execute(f"vacuum {table}")
            else:
                conn.execute(f"truncate {table}")
        self.clear()


class QueueWay(Way):
    """A way whose events stand in a queue of PgQ, ours or the original."""

    trigger = True

    def attach(self, conn: psycopg.Connection, table: str) -> None:
        if table == self.table("u"):
            conn.execute("select pgq.create_queue(%s)", [self.prefix])
        self.capture(conn, table)

    def capture(self, conn: psycopg.Connection, table: str) -> None:
        """Makes the trigger."""
        raise NotImplementedError

    def clear(self) -> None:
        with self.connect() as conn:
            parent = self._parent(conn)
            conn.execute(f"truncate {', '.join(f'{parent}_{n}' for n in range(3))}")

    def changes(self) -> int | None:
        with self.connect() as conn:
            row = conn.execute(
                """select coalesce(sum(case when ev_type like '%"pack":true%'
                    then 1 + length(ev_data) - length(replace(ev_data, E'\\n', '')) else 1 end), 0)
                    from """
                + self._parent(conn)
            ).fetchone()
        assert row is not None
        return int(row[0])

    def replayed(self) -> bool:
        """Whether replaying the events row by row gives what table ``m`` holds."""
        with self.connect() as conn:
            copy = self.table("copy")
            conn.execute(f"drop table if exists {copy}")
            conn.execute(f"create table {copy} ({COLUMNS})")
            events = conn.execute(
                "select ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data, ev_extra1,"
                f" ev_extra2, ev_extra3, ev_extra4 from {self._parent(conn)} order by ev_id"
            ).fetchall()
            with conn.transaction(), conn.pipeline():
                for values in events:
                    for change in decode.decode_all(Event(*values)):
                        assert isinstance(change, RowChange)
                        replay(conn, copy, change)
            row = conn.execute(
                f"select (select count(*) from (table {copy} except all table {self.table('m')}) x)"
                f" + (select count(*) from (table {self.table('m')} except all table {copy}) x)"
            ).fetchone()
        return row == (0,)

    def _parent(self, conn: psycopg.Connection) -> str:
        row = conn.execute(
            "select queue_data_pfx from pgq.queue where queue_name = %s", [self.prefix]
        ).fetchone()
        assert row is not None
        return str(row[0])


class OurCapture(QueueWay):
    """Our generated triggers in one of their forms."""

    def __init__(self, server: Cluster, database: str, prefix: str, form: str) -> None:
        super().__init__(server, database, prefix)
        self.form = form
        self.name = f"londiste, {form} form"

    def capture(self, conn: psycopg.Connection, table: str) -> None:
        conn.execute(
            "select londiste.create_capture(%s, %s, %s)",
            [self.prefix, f"public.{table}", [f"form={self.form}"]],
        )


class TriggerFunction(QueueWay):
    """A trigger with one of the functions of PgQ: our compatible ones, or the original in C."""

    def __init__(
        self, server: Cluster, database: str, prefix: str, function: str, *, slow: int
    ) -> None:
        super().__init__(server, database, prefix)
        self.function = function
        self.slow = slow
        self.name = f"{'londiste, compatible' if slow > 1 else 'C'} {function}"

    def capture(self, conn: psycopg.Connection, table: str) -> None:
        conn.execute(
            f"create trigger capture after insert or update or delete on {table}"
            f" for each row execute function pgq.{self.function}('{self.prefix}')"
        )


class Slony(Way):
    """Slony's log trigger; no second node, so nobody reads its log."""

    name = "Slony"
    trigger = True

    def __init__(self, server: Cluster, database: str, prefix: str, slonik: Path) -> None:
        super().__init__(server, database, prefix)
        self.slonik = slonik

    def prepare(self) -> None:
        super().prepare()
        tables = "".join(
            f"set add table (set id = 1, origin = 1, id = {number},"
            f" fully qualified name = 'public.{self.table(name)}', comment = '');\n"
            for number, name in enumerate(TABLES, 1)
        )
        subprocess.run(
            [self.slonik],
            input="cluster name = bench;\n"
            f"node 1 admin conninfo = '{self.server.dsn(self.database)}';\n"
            "init cluster (id = 1, comment = 'bench');\n"
            f"create set (id = 1, origin = 1, comment = 'bench');\n{tables}",
            text=True,
            check=True,
            capture_output=True,
        )

    def clear(self) -> None:
        with self.connect() as conn:
            conn.execute("truncate _bench.sl_log_1, _bench.sl_log_2")

    def changes(self) -> int | None:
        with self.connect() as conn:
            row = conn.execute(
                "select (select count(*) from _bench.sl_log_1)"
                " + (select count(*) from _bench.sl_log_2)"
            ).fetchone()
        assert row is not None
        return int(row[0])


class NativeSlot(Way):
    """A logical slot with a publication, read by a program that throws everything away."""

    name = "native, slot read"

    @contextlib.contextmanager
    def running(self, table: str) -> Iterator[None]:
        with self.connect() as conn:
            conn.execute(f"create publication p_{self.prefix} for table {table}")
            conn.execute(f"select pg_create_logical_replication_slot('{self.prefix}', 'pgoutput')")
            reader = subprocess.Popen(
                [
                    *(self.server.program("pg_recvlogical"), "-d", self.server.dsn(self.database)),
                    *("-S", self.prefix, "--start", "-f", "/dev/null", "-n"),
                    *("-o", "proto_version=1", "-o", f"publication_names=p_{self.prefix}"),
                ],
                stderr=subprocess.DEVNULL,  # it calls its own end unexpected
            )
            try:
                common.wait_until(
                    f"select active from pg_replication_slots where slot_name = '{self.prefix}'",
                    conn,
                )
                yield
            finally:
                reader.send_signal(signal.SIGINT)
                reader.wait()
                common.wait_until(
                    "select not active from pg_replication_slots"
                    f" where slot_name = '{self.prefix}'",
                    conn,
                )
                conn.execute(f"select pg_drop_replication_slot('{self.prefix}')")
                conn.execute(f"drop publication p_{self.prefix}")


class NativeSubscription(Way):
    """A subscription on a second server of the same machine, which applies meanwhile."""

    name = "native, subscription"

    def __init__(self, server: Cluster, database: str, prefix: str, target: Cluster) -> None:
        super().__init__(server, database, prefix)
        self.target = target

    def prepare(self) -> None:
        super().prepare()
        with common.connect(self.target) as conn:
            for name in TABLES:
                conn.execute(f"create table {self.table(name)} ({COLUMNS})")
            conn.execute(
                f"insert into {self.table('u')} select {VALUES} from generate_series(1, {ROWS}) i"
            )

    @contextlib.contextmanager
    def running(self, table: str) -> Iterator[None]:
        with self.connect() as conn, common.connect(self.target) as there:
            conn.execute(f"create publication p_{self.prefix} for table {table}")
            there.execute(
                f"create subscription s connection '{self.server.dsn(self.database)}'"
                f" publication p_{self.prefix} with (copy_data = false)"
            )
            common.wait_until(
                "select count(*) > 0 from pg_stat_replication where state = 'streaming'"
                " and application_name = 's'",
                conn,
            )
            yield
            self._follow(conn)
            count = f"select count(*), sum(a), sum(id) from {table}"
            if conn.execute(count).fetchone() != there.execute(count).fetchone():
                raise AssertionError(
                    f"{table}: the subscription does not hold what the table holds"
                )
            there.execute("drop subscription s")
            conn.execute(f"drop publication p_{self.prefix}")

    def tidy(self, table: str) -> None:
        super().tidy(table)
        with common.connect(self.target) as conn:
            conn.execute(f"{'vacuum' if table == self.table('u') else 'truncate'} {table}")

    def _follow(self, conn: psycopg.Connection) -> None:
        row = conn.execute("select pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        common.wait_until(
            f"select coalesce(bool_and(replay_lsn >= '{row[0]}'::pg_lsn), false)"
            " from pg_stat_replication where application_name = 's'",
            conn,
        )


def all_ways(server: Cluster, target: Cluster, peers: Peers) -> list[Way]:
    """Every way that can be measured here, prepared; plain first."""
    for database in ("ours", "original", "slony", "native"):
        server.create_database(database)
    with session(server.dsn("ours"), autocommit=True) as conn:
        install(conn)
    ways = [
        Way(server, "ours", "plain"),
        OurCapture(server, "ours", "row", "row"),
        OurCapture(server, "ours", "statement", "statement"),
        *(
            TriggerFunction(server, "ours", f"pl_{function[0]}", function, slow=100)
            for function in ("logutriga", "jsontriga", "sqltriga")
        ),
    ]
    if peers.extension("pgq"):
        with common.connect(server, "original") as conn:
            conn.execute("create extension pgq")
        ways += [
            TriggerFunction(server, "original", f"c_{function[0]}", function, slow=1)
            for function in ("logutriga", "jsontriga", "sqltriga")
        ]
    slonik = peers.program("slonik")
    if slonik is not None:
        ways.append(Slony(server, "slony", "slony", slonik))
    ways.append(NativeSlot(server, "native", "slot"))
    ways.append(NativeSubscription(server, "native", "sub", target))
    for way in ways:
        way.prepare()
    return ways


def replay(conn: psycopg.Connection, table: str, change: RowChange) -> None:
    """Does one change to a table, as a person would write it."""
    image = change.image
    if change.op is Op.DELETE or change.state:
        conn.execute(f"delete from {table} where id = %s", [image["id"]])
    if change.op is Op.INSERT:
        marks = ", ".join(["%s"] * len(image))
        conn.execute(
            f"insert into {table} ({', '.join(image)}) values ({marks})", list(image.values())
        )
    elif change.op is Op.UPDATE:
        assignments = ", ".join(f"{name} = %s" for name in image)
        conn.execute(
            f"update {table} set {assignments} where id = %s", [*image.values(), image["id"]]
        )


def _per_update(conn: psycopg.Connection, update: str, statements: int) -> float:
    """CPU of an UPDATE of a row by its number, after ten that warm the session up."""
    for number in range(1, 11):
        conn.execute(update, [number], prepare=True)
    started = cpu.of_session(conn)
    for number in range(11, statements + 11):
        conn.execute(update, [number], prepare=True)
    return (cpu.of_session(conn) - started) / statements


def after_alter(way: Way, statements: int) -> tuple[float, float, float]:
    """CPU of an UPDATE before an ALTER TABLE, of the first one after it, and of those after that.

    Those after it are of another session, because a capture that is not recreated costs each.
    """
    table = way.table("u")
    update = f"update {table} set a = a + 1 where id = %s"
    with way.connect() as conn:
        before = _per_update(conn, update, statements)
        conn.execute(f"alter table {table} add more int")
        started = cpu.of_session(conn)
        conn.execute(update, [1])
        first = cpu.of_session(conn) - started
    with way.connect() as conn:
        after = _per_update(conn, update, statements)
        conn.execute(f"alter table {table} drop more")
    return before, first, after


def mixed(conn: psycopg.Connection, table: str) -> None:
    """Statements of one and of many rows, several in a transaction, rows changed repeatedly."""
    conn.execute(f"insert into {table} select {VALUES} from generate_series(1, 3000) i")
    conn.execute(f"update {table} set c = c * 2, b = null where id % 3 = 0")
    with conn.transaction():
        conn.execute(f"delete from {table} where id between 1000 and 1999")
        conn.execute(f"insert into {table} select {VALUES} from generate_series(1500, 1600) i")
        conn.execute(f"update {table} set d = null, e = not e where id between 1590 and 2100")
    pick = random.Random(7)
    with conn.pipeline():
        for number in range(500):
            with conn.transaction():
                key = pick.randint(1, 3000)
                conn.execute(f"update {table} set a = %s where id = %s", [number, key])
                conn.execute(f"delete from {table} where id = %s", [pick.randint(1, 3000)])
                conn.execute(
                    f"insert into {table} values (%s, 1, %s, 0.10, now(), null)",
                    [10_000 + number, 'it\'s \\ \t\n"quoted" ü €'],
                )
    conn.execute(
        f"insert into {table} select {VALUES} from generate_series(2900, 3100) i"
        " on conflict (id) do update set a = -excluded.a"
    )
