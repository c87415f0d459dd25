"""The byte pipe between two sessions: everything arrives, and no failure makes it hang."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import conninfo
from psycopg.pq import TransactionStatus

from londiste.db import copy, copy_protocol
from londiste.db.connection import session
from londiste.db.names import TableName
from londiste.embedded.postgres import Cluster
from londiste.errors import BadOption, LockTimeout, LondisteError, NodeUnreachable, StateError
from tests.fixtures.cluster import Database, Server, cleared_for_a_test, create_database
from tests.support.lines import Line
from tests.support.waiting import wait_for

TABLE = TableName("public", "t")
COLUMNS = ["id", "v"]


@pytest.fixture(params=[True, False], ids=["raw", "libpq"])
def raw(request: pytest.FixtureRequest) -> bool:
    """From socket to socket, or through libpq as an encrypted connection needs it."""
    return bool(request.param)


@pytest.fixture(scope="module")
def kept_sides(cluster: Server) -> Iterator[tuple[Database, Database]]:
    made = create_database(cluster, pgq=False), create_database(cluster, pgq=False)
    yield made
    for database in made:
        database.drop()


@pytest.fixture
def sides(kept_sides: tuple[Database, Database]) -> Iterator[tuple[Database, Database]]:
    with contextlib.ExitStack() as stack:
        clear = contextlib.contextmanager(cleared_for_a_test)
        source, target = (stack.enter_context(clear(kept)) for kept in kept_sides)
        for database in (source, target):
            database.execute("create table public.t (id int8, v text)")
        yield source, target


def pipe(
    sides: tuple[Database, Database],
    *,
    where: str = "",
    binary: bool = False,
    target: psycopg.Connection[tuple[object, ...]] | None = None,
    stop: Callable[[], bool] | None = None,
    pace: Callable[[int], None] | None = None,
    block: int = copy.BLOCK,
    raw: bool | None = None,
) -> copy.Copied:
    """Copies the table in a transaction on the target, which is committed."""
    reader = sides[0].connect()
    writer = target or sides[1].connect()
    with writer.transaction():
        return copy.pipe(
            reader,
            copy.copy_out(TABLE, COLUMNS, where=where, binary=binary),
            writer,
            copy.copy_in(TABLE, COLUMNS, binary=binary),
            stop=stop,
            pace=pace,
            block=block,
            raw=raw,
        )


def count(database: Database) -> int:
    return int(database.value("select count(*) from public.t"))


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("block", [1, 1000, copy.BLOCK])
def test_rows_and_bytes_are_counted_whatever_the_size_of_blocks(
    sides: tuple[Database, Database], raw: bool, binary: bool, block: int
) -> None:
    sides[0].execute("insert into public.t select i, 'row ' || i from generate_series(1, 3000) i")
    copied = pipe(sides, raw=raw, binary=binary, block=block)
    assert copied.rows == 3000
    if not binary:
        assert copied.bytes == sides[0].value(
            "select sum(length(id::text) + length(v) + 2) from public.t"
        )
    shown = "select id, v from public.t order by id"
    assert sides[1].execute(shown) == sides[0].execute(shown)


def test_a_value_much_larger_than_a_block_arrives(
    sides: tuple[Database, Database], raw: bool
) -> None:
    sides[0].execute("insert into public.t values (1, repeat('x\\y', 1000000)), (2, null), (3, '')")
    assert pipe(sides, raw=raw).rows == 3
    shown = "select id, md5(v) from public.t order by id"
    assert sides[1].execute(shown) == sides[0].execute(shown)


def test_a_refusal_in_mid_stream_stops_the_reading(
    sides: tuple[Database, Database], raw: bool
) -> None:
    sides[0].execute(
        "insert into public.t select i, repeat('x', 200) from generate_series(1, 100000) i"
    )
    sides[1].execute("alter table public.t add check (id < 10)")
    reads = 0

    def reading() -> bool:
        nonlocal reads
        reads += 1
        return False

    with pytest.raises(LondisteError, match="violates check constraint"):
        pipe(sides, raw=raw, stop=reading, block=10_000)
    # 20 MB would be 2,000 blocks.
    assert reads < 1000
    assert count(sides[1]) == 0


def test_the_target_can_go_on_after_a_failure_of_the_source(
    sides: tuple[Database, Database],
    raw: bool,
) -> None:
    sides[0].execute("insert into public.t select i, 'x' from generate_series(1, 50000) i")
    writer = sides[1].connect()
    with pytest.raises(LondisteError, match="division by zero"):
        pipe(sides, raw=raw, where="1 / (id - 49999) < 2", target=writer)
    assert writer.info.transaction_status == TransactionStatus.IDLE
    assert writer.execute("select count(*) from public.t").fetchone() == (0,)


def test_a_source_that_dies_is_noticed(sides: tuple[Database, Database], raw: bool) -> None:
    sides[0].execute("insert into public.t values (1, 'x')")
    with pytest.raises(LondisteError) as caught:
        with killed(sides[0], "copy (select"):
            pipe(sides, raw=raw, where="pg_sleep(60) is not null")
    assert isinstance(caught.value, NodeUnreachable)
    assert sides[0].name in caught.value.message
    assert count(sides[1]) == 0


def test_a_target_that_dies_is_noticed_while_the_source_is_silent(
    sides: tuple[Database, Database],
    raw: bool,
) -> None:
    sides[0].execute("insert into public.t values (1, 'x')")
    with pytest.raises(LondisteError) as caught:
        with killed(sides[1], "copy"):
            pipe(sides, raw=raw, where="pg_sleep(60) is not null")
    assert isinstance(caught.value, NodeUnreachable)
    assert sides[1].name in caught.value.message


def test_a_locked_target_gives_up_after_the_lock_timeout(
    sides: tuple[Database, Database],
    raw: bool,
) -> None:
    sides[0].execute("insert into public.t values (1, 'x')")
    holder = sides[1].connect(autocommit=False)
    holder.execute("lock table public.t in access exclusive mode")
    writer = sides[1].connect(lock_timeout_ms=50)
    with pytest.raises(LockTimeout):
        pipe(sides, raw=raw, target=writer)
    holder.rollback()
    assert count(sides[1]) == 0


def test_a_stop_is_obeyed_while_nothing_moves(sides: tuple[Database, Database], raw: bool) -> None:
    sides[0].execute("insert into public.t values (1, 'x')")
    started = time.monotonic()
    with pytest.raises(StateError, match="stopped"):
        pipe(sides, raw=raw, where="pg_sleep(60) is not null", stop=lambda: True)
    assert time.monotonic() - started < 20
    assert count(sides[1]) == 0


def test_who_sets_the_pace_is_told_the_bytes_so_far_and_can_end_it(
    sides: tuple[Database, Database], raw: bool
) -> None:
    sides[0].execute("insert into public.t select i, 'row ' || i from generate_series(1, 3000) i")
    told: list[int] = []
    copied = pipe(sides, pace=told.append, block=8192, raw=raw)
    assert len(told) > 3
    assert told == sorted(told)
    assert 0 < told[0] < copied.bytes
    assert copied.bytes - told[-1] <= 8192

    def enough(moved: int) -> None:
        if moved > 20_000:
            raise StateError("enough")

    with pytest.raises(StateError, match="enough"):
        pipe(sides, pace=enough, block=8192, raw=raw)
    assert count(sides[1]) == 3000


def test_an_error_before_the_first_row_names_its_side(
    sides: tuple[Database, Database], raw: bool
) -> None:
    sides[0].execute("drop table public.t")
    with pytest.raises(LondisteError, match=f'{sides[0].name}.*"public.t" does not exist'):
        pipe(sides, raw=raw)
    sides[1].execute("drop table public.t")
    with pytest.raises(LondisteError, match=f'{sides[1].name}.*"public.t" does not exist'):
        pipe(sides, raw=raw)


class killed:  # noqa: N801 -- reads as a verb
    """Ends the session of a database that runs a statement, as soon as it does."""

    def __init__(self, database: Database, statement: str) -> None:
        self._thread = threading.Thread(target=self._kill, args=(database, statement))

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exc: object) -> None:
        self._thread.join()

    def _kill(self, database: Database, statement: str) -> None:
        wait_for(
            lambda: database.value(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and state = 'active'"
                " and pid <> pg_backend_pid() and starts_with(query, %s)",
                statement,
            ),
            what=f"a session that runs {statement}",
        )


def test_notices_of_the_target_do_not_stop_the_stream(
    sides: tuple[Database, Database], raw: bool
) -> None:
    sides[0].execute("insert into public.t select i, 'x' from generate_series(1, 20000) i")
    sides[1].execute(
        "create function public.talk() returns trigger language plpgsql as"
        " 'begin raise notice ''%'', repeat(''talk '', 50); return new; end';"
        " create trigger talk before insert on public.t for each row"
        " execute function public.talk()"
    )
    assert pipe(sides, raw=raw).rows == 20000


def test_notices_of_the_source_are_no_rows(sides: tuple[Database, Database], raw: bool) -> None:
    sides[0].execute("insert into public.t select i, 'x' from generate_series(1, 500) i")
    sides[0].execute(
        "create function public.say(i int8) returns bool language plpgsql volatile as"
        " 'begin raise notice ''row %'', i; return true; end'"
    )
    assert pipe(sides, raw=raw, where="public.say(id)").rows == 500
    assert count(sides[1]) == 500


def test_rows_that_look_like_messages_are_only_rows(
    sides: tuple[Database, Database], raw: bool
) -> None:
    # A table of bytea would do the same; in binary these bytes stand in the stream as they are.
    for database in sides:
        database.execute("alter table public.t alter v type bytea using null")
    fake = b"c\x00\x00\x00\x04C\x00\x00\x00\x0bCOPY 1\x00Z\x00\x00\x00\x05I"
    for number in range(200):
        sides[0].execute("insert into public.t values (%s, %s)", number, b"x" * number * 7 + fake)
    assert pipe(sides, raw=raw, binary=True, block=1000).rows == 200
    shown = "select id, v from public.t order by id"
    assert sides[1].execute(shown) == sides[0].execute(shown)


def test_detail_of_the_sources_error_is_kept(sides: tuple[Database, Database], raw: bool) -> None:
    sides[0].execute(
        "insert into public.t values (1, 'x');"
        "create function public.fail() returns bool language plpgsql as"
        " 'begin raise exception using errcode = ''LD005'', message = ''no'', detail = ''why'',"
        " hint = ''do é''; end'"
    )
    with pytest.raises(BadOption) as caught:
        pipe(sides, raw=raw, where="public.fail()")
    assert caught.value.message.endswith(": no")
    assert (caught.value.detail, caught.value.hint) == ("why", "do é")


def test_sessions_over_tcp_without_encryption_are_in_the_clear(
    new_cluster: Callable[..., Cluster],
) -> None:
    cluster = new_cluster("tcp", port=True)
    for dsn in (cluster.dsn(), f"host=127.0.0.1 {conninfo_without_host(cluster)}"):
        with session(dsn, autocommit=True) as conn:
            assert copy_protocol.in_the_clear(conn)


def conninfo_without_host(cluster: Cluster) -> str:
    parts = conninfo.conninfo_to_dict(cluster.dsn())
    return conninfo.make_conninfo(
        "", **{k: v for k, v in parts.items() if k != "host" and v is not None}
    )


def test_a_source_that_is_kept_goes_on_in_its_transaction(
    sides: tuple[Database, Database], raw: bool
) -> None:
    sides[0].execute("insert into public.t select i, 'row ' || i from generate_series(1, 3000) i")
    sides[0].execute(
        "create function public.told(i int8) returns int8 language plpgsql as"
        " $$ begin if i % 1000 = 1 then raise notice 'at %', i; end if; return i; end $$"
    )
    reader, writer = sides[0].connect(), sides[1].connect()
    reader.execute("begin isolation level repeatable read, read only")
    reader.execute("select 1")
    sides[0].execute("delete from public.t where id > 2500")
    for part in ("public.told(id) <= 1000", "public.told(id) > 1000", "false"):
        with writer.transaction():
            copy.pipe(
                reader,
                copy.copy_out(TABLE, COLUMNS, where=part),
                writer,
                copy.copy_in(TABLE, COLUMNS),
                raw=raw,
                keep=True,
            )
        # Between two pipes it is a session like any other, in the snapshot that it had.
        assert reader.info.transaction_status == TransactionStatus.INTRANS
        assert reader.execute("select count(*) from public.t").fetchone() == (3000,)
    assert count(sides[1]) == 3000
    reader.execute("rollback")
    with pytest.raises(LondisteError), writer.transaction():
        copy.pipe(
            reader,
            copy.copy_out(TABLE, COLUMNS, where="id / (id - 700) > 0"),
            writer,
            copy.copy_in(TABLE, COLUMNS),
            raw=raw,
            keep=True,
        )
    assert reader.closed


def test_a_source_that_falls_silent_is_given_up(
    sides: tuple[Database, Database], raw: bool
) -> None:
    sides[0].execute(
        "insert into public.t select i, repeat('x', 200) from generate_series(1, 50000) i"
    )
    writer = sides[1].connect()
    limited = {"name": "half open", "autocommit": True, "silent_seconds": 1.0}
    with Line(sides[0].dsn) as line, session(line.dsn, **limited) as reader:
        reader.execute("begin isolation level repeatable read")
        with pytest.raises(NodeUnreachable, match=r"127\.0\.0\.1.*not responded for 1 s"):
            copy.pipe(
                reader,
                copy.copy_out(TABLE, COLUMNS),
                writer,
                copy.copy_in(TABLE, COLUMNS),
                pace=lambda moved: line.stall() if 0 < moved < 100_000 else None,
                block=10_000,
                raw=raw,
            )
    there = "select count(*) from pg_stat_activity where application_name = 'half open'"
    wait_for(lambda: sides[0].value(there) == 0, what="the end of the session on the server")


def test_a_source_that_works_for_long_is_waited_for(
    sides: tuple[Database, Database], raw: bool
) -> None:
    sides[0].execute("insert into public.t values (1, 'x')")
    with session(sides[0].dsn, autocommit=True, silent_seconds=0.5) as reader:
        with sides[1].connect() as writer, writer.transaction():
            out = copy.copy_out(TABLE, COLUMNS, where="pg_sleep(1) is not null")
            copied = copy.pipe(reader, out, writer, copy.copy_in(TABLE, COLUMNS), raw=raw)
    assert copied.rows == 1
