"""Commands of generation 2 on a pair of databases with one file, which replay keeps equal."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from londiste.cli import _old_form, cli
from londiste.cli.errors import run as run_command
from londiste.errors import BadOption
from londiste.settings.pair import expanded
from tests.fixtures.cluster import Database
from tests.integration.compat.test_old_commands import ROWS
from tests.support.skytools.running import Started, tick
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
def daemon() -> Iterator[Callable[..., Started]]:
    """Starts ``londiste`` with arguments, in the foreground; killed after the test."""
    running: list[Started] = []

    def start(*arguments: str) -> Started:
        running.append(Started("londiste", *arguments))
        return running[-1]

    yield start
    for each in running:
        each.signal(signal.SIGKILL)
        each.end(-9)


@pytest.fixture
def ticker(daemon: Callable[..., Started]) -> Callable[..., Started]:
    def start(*databases: Database) -> Started:
        return daemon("ticker", *(word for each in databases for word in ("--db", each.dsn)))

    return start


def test_the_other_commands_of_generation_2_work_on_the_result(
    pair: Pair,
    ticker: Callable[..., Started],
    daemon: Callable[..., Started],
    capfd: pytest.CaptureFixture[str],
) -> None:
    for db in (pair.master, pair.slave):
        db.execute(f"{USERS}; create sequence ids; create table a (id int primary key)")
    pair("subscriber install", code=4)
    assert f"hint: londiste {pair.file} provider install" in capfd.readouterr().err.splitlines()
    again = {"remove": "add", "remove-seq": "add-seq"}
    *rows, (last, _) = ROWS
    for old, present in rows:
        side, command, *names = old.split()
        if old == "subscriber add users":
            # The node knows first that the table was removed.
            tick(pair.master, "londiste.replic")
            pair("replay --once")
        capfd.readouterr()
        pair(old, code=None if command in ("missing", "check") else 0)
        notices = capfd.readouterr().err.count(f"{side} {command} is now: londiste -c {pair.file} ")
        assert notices == len(present.split("`, `")), old
        if command in again:
            pair(f"{side} {again[command]} {names[0]}")
    for words in (
        "provider add a",
        "provider refresh-trigger",
        "subscriber add a --expect-sync",
        "subscriber restore-fkeys",
        "subscriber resync a",
        "subscriber remove users",
    ):
        pair(words)
    assert pair.master.value("select count(*) from londiste.table_info where local") == 2
    assert pair.slave.value("select count(*) from londiste.table_info where local") == 1
    pair.master.execute("insert into a select generate_series(1, 3)")
    ticker(pair.master)
    # Without replay, a copy begins by itself; beside replay it waits until that has copied.
    pair("copy a")
    assert pair.equal("a")
    capfd.readouterr()
    pair("copy a")
    assert "table public.a is in sync" in capfd.readouterr().err
    replay = daemon(str(pair.file), "replay")
    wait_for(lambda: "at tick" in replay.text, what="the start of replay")
    pair("subscriber resync a")
    # Its code is 3 if replay has started the copy already.
    pair("copy a", code=None)
    state = "select merge_state from londiste.table_info where local"
    wait_for(lambda: pair.slave.value(state) == "ok", what=f"the copy:\n{replay.text}")
    assert pair.equal("a")
    pair("copy nowhere", code=2)
    capfd.readouterr()
    pair("status")
    assert "londiste.replic_provider" in capfd.readouterr().out
    pair("provider add nowhere", code=2)
    hint = f"hint: londiste -c {pair.file} --set side=provider missing"
    assert hint in capfd.readouterr().err.splitlines()
    pair("subscriber nonsense", code=2)
    pair("provider resync a", code=2)
    assert "error: unknown command provider resync" in capfd.readouterr().err
    assert last == "subscriber unregister"
    pair(last)
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


@pytest.mark.slow
def test_several_slaves_have_one_master_and_a_slave_is_the_master_of_another(
    pair: Pair,
    new_database: Callable[..., Database],
    tmp_path: Path,
    ticker: Callable[..., Started],
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
        "dbname=a password=one",
        "postgresql://u:two@h/b",
    )
    assert leaf["db"] == "postgresql://u:two@h/b"
    assert (leaf["node_name"], root["node_name"]) == ("job", "q_provider")
    assert root["pidfile"] == "~/x.provider.pid"
    assert "maint_delay" not in leaf
    with pytest.raises(BadOption, match="provider_db"):
        expanded({"londiste": {"db": "x"}}, file, "provider")
    with pytest.raises(BadOption, match="'root'"):
        expanded({"londiste": section}, file, "root")
