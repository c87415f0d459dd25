"""The session of the talk: a pair of databases with one file, which replay keeps equal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from londiste.cli import _old_form, cli
from londiste.cli.errors import run as run_command
from londiste.errors import BadOption
from londiste.settings.pair import expanded
from tests.fixtures.cluster import Database
from tests.fixtures.process import Program
from tests.support.waiting import wait_for

USERS = "create table users (id serial primary key, name text not null, password text)"


class Pair:
    """Two databases, their file, and the commands of the session in this process."""

    def __init__(
        self, folder: Path, job: str, master: Database, slave: Database, queue: str, **keys: object
    ) -> None:
        self.master, self.slave = master, slave
        self.file = folder / f"{job}.ini"
        lines = "".join(f"{key} = {value}\n" for key, value in keys.items())
        self.file.write_text(
            f"[londiste]\njob_name = {job}\nprovider_db = {master.dsn}\n"
            f"subscriber_db = {slave.dsn}\npgq_queue_name = {queue}\nloop_delay = 0.1\n"
            f"logfile = {folder}/%(job_name)s.log\npidfile = {folder}/%(job_name)s.pid\n{lines}"
        )

    def __call__(self, words: str, *, code: int | None = 0) -> None:
        """``pair("provider install")``; the command must end with this code."""
        argv = [str(self.file), *words.split()]
        result = run_command(cli, _old_form(argv))
        assert code is None or result == code, words

    def equal(self, tables: str = "users") -> bool:
        statement = f"select * from {tables} order by 1"
        return self.master.execute(statement) == self.slave.execute(statement)


@pytest.fixture
def pair(new_database: Callable[..., Database], tmp_path: Path) -> Pair:
    return Pair(tmp_path, "replic", new_database(), new_database(), "londiste.replic")


@pytest.fixture
def ticker(pair: Pair, program: Callable[..., Program]) -> Iterator[Callable[..., Program]]:
    def start(*databases: Database) -> Program:
        options = [word for each in databases for word in ("--db", each.dsn)]
        return program("ticker", *options)

    yield start


def test_the_session_replicates_a_table_that_is_written_to(
    pair: Pair, ticker: Callable[..., Program], program: Callable[..., Program]
) -> None:
    pair.master.execute(USERS)
    pair.master.execute("insert into users (name) select 'u' || n from generate_series(1, 100) n")
    pair("provider install")
    pair("subscriber install")
    ticker(pair.master)
    replay = program("-v", str(pair.file), "replay")
    pair.slave.execute(USERS)

    stop = threading.Event()

    def write() -> None:
        with psycopg.connect(pair.master.dsn, autocommit=True) as conn:
            while not stop.is_set():
                conn.execute("insert into users (name) values ('new')")
                conn.execute("update users set password = 'x' where id %% 7 = %s", [3])
                conn.execute("delete from users where id = (select min(id) from users)")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        pair("provider add users")
        pair("subscriber add users")
        state = "select merge_state from londiste.table_info"
        wait_for(lambda: pair.slave.value(state) == "ok", what=f"the copy:\n{replay.text}")
        # Killed in the middle, and started again.
        replay.signal(signal.SIGKILL)
        replay.end()
        # The present worker takes its turn, and is replaced by replay again.
        for words in (["-c", str(pair.file), "worker"], ["-v", str(pair.file), "replay"]):
            replay.signal(signal.SIGINT)
            replay.end()
            replay = program(*words)
            least = pair.master.value("select max(id) from users") + 20
            wait_for(
                lambda least=least: (pair.slave.value("select max(id) from users") or 0) > least,
                what=f"new rows:\n{replay.text}",
            )
    finally:
        stop.set()
        writer.join()
    wait_for(pair.equal, what=f"equal tables:\n{replay.text}")
    pair("compare users")
    pair(f"repair users --plan {pair.file}.plan")
    # The provider's duties run in the same process.
    replay.says("of node londiste.replic_provider (root)")
    replay.signal(signal.SIGINT)
    assert replay.end() == 0


def test_the_other_commands_of_generation_2_work_on_the_result(
    pair: Pair, ticker: Callable[..., Program], capfd: pytest.CaptureFixture[str]
) -> None:
    keys = "create table a (id int primary key); create table b (id int primary key, a int);"
    for db in (pair.master, pair.slave):
        db.execute(keys + "create sequence s; create table c (id int primary key)")
    for words in (
        "provider install",
        "provider missing",
        "provider add a b c",
        "provider remove c",
        "provider add-seq s",
        "provider tables",
        "provider seqs",
        "provider refresh-trigger",
        "provider check",
        "provider fkeys",
        "provider triggers",
        "subscriber install",
        "subscriber install",
        "subscriber missing",
        "subscriber add a --expect-sync",
        "subscriber add b --skip-truncate",
        "subscriber add-seq s",
        "subscriber tables",
        "subscriber seqs",
        "subscriber fkeys pending",
        "subscriber triggers active",
        "subscriber restore-triggers a",
        "subscriber restore-fkeys",
        "subscriber resync a",
        "subscriber remove-seq s",
        "subscriber remove b",
        "subscriber register",
    ):
        pair(words, code=None if words.endswith(("missing", "check")) else 0)
    assert pair.master.value("select count(*) from londiste.table_info where local") == 2
    assert pair.slave.value("select count(*) from londiste.table_info where local") == 1
    pair.master.execute("insert into a select generate_series(1, 3)")
    ticker(pair.master)
    # Replay runs the copies.
    pair("copy a", code=3)
    pair("replay --once")
    assert pair.equal("a")
    capfd.readouterr()
    pair("status")
    assert "londiste.replic_provider" in capfd.readouterr().out
    pair("subscriber nonsense", code=2)
    pair("provider resync a", code=2)
    assert "error: unknown command provider resync" in capfd.readouterr().err
    pair("subscriber unregister")
    assert pair.slave.value("select count(*) from pgq_node.node_info") == 0


def test_a_dry_run_prints_the_present_commands(
    pair: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    pair("provider install --dry-run")
    pair("subscriber add users --dry-run --expect-sync")
    assert capsys.readouterr().out.splitlines() == [
        f"londiste -c {pair.file} --set side=provider install",
        f"londiste -c {pair.file} --set side=provider create-root",
        f"londiste -c {pair.file} add-table users --expect-sync",
    ]
    assert pair.master.value("select count(*) from pg_namespace where nspname = 'pgq'") == 0


def test_several_slaves_have_one_master_and_a_slave_is_the_master_of_another(
    pair: Pair,
    new_database: Callable[..., Database],
    tmp_path: Path,
    ticker: Callable[..., Program],
) -> None:
    second = Pair(tmp_path, "second", pair.master, new_database(), "londiste.replic")
    below = Pair(tmp_path, "below", pair.slave, new_database(), "londiste.below")
    pairs = [pair, second, below]
    for db in (pair.master, pair.slave, second.slave, below.slave):
        db.execute(USERS)
    for each in pairs:
        each("provider install")
        each("subscriber install")
    pair.master.execute("insert into users (name) values ('copied')")
    for each in pairs:
        each("provider add users")
        each("subscriber add users")
    ticker(pair.master, pair.slave)

    def work() -> bool:
        for each in pairs:
            each("replay --once")
        return all(each.equal() for each in pairs)

    wait_for(work, what="the copies")
    pair.master.execute(
        "insert into users (name) values ('x'); update users set password = 'p' where id = 1;"
        "delete from users where name = 'x'; insert into users (name) values ('y')"
    )
    wait_for(work, what="the changes")
    assert below.slave.execute("select name, password from users order by id") == [
        ("copied", "p"),
        ("y", None),
    ]


def test_passwords_of_the_file_are_not_stored_on_other_nodes() -> None:
    section = {
        "provider_db": "dbname=a password=one",
        "subscriber_db": "postgresql://u:two@h/b",
        "pgq_queue_name": "q",
        "pidfile": "~/x.pid",
        "maint_delay": "600",
    }
    file = Path("/etc/job.ini")
    leaf = expanded({"londiste": section}, file, None)["londiste"]
    root = expanded({"londiste": section}, file, "provider")["londiste"]
    assert leaf["public_node_location"] == "user=u dbname=b host=h"
    assert leaf["initial_provider_location"] == "dbname=a"
    assert (leaf["remote_extra_connstr"], root["remote_extra_connstr"]) == (
        "password=one",
        "password=two",
    )
    assert leaf["db"] == "postgresql://u:two@h/b"
    assert (leaf["node_name"], root["node_name"]) == ("job", "q_provider")
    assert root["pidfile"] == str(Path("~/x.provider.pid").expanduser())
    assert "maint_delay" not in leaf
    with pytest.raises(BadOption, match="provider_db"):
        expanded({"londiste": {"db": "x"}}, file, "provider")
    with pytest.raises(BadOption, match="'root'"):
        expanded({"londiste": section}, file, "root")
