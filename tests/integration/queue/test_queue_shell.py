"""``londiste queue shell``: statements on a real database, and a real terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from londiste.cli import cli
from londiste.cli.errors import run
from londiste.db.connection import Connection
from londiste.errors import BadOption, LondisteError, StateError
from londiste.pgq import batches, producer, queues
from londiste.shell.completion import catalog
from londiste.shell.session import Session
from londiste.shell.statements import execute
from tests.fixtures.cascade import QUEUE, Answer, Nodes
from tests.fixtures.cluster import Database
from tests.fixtures.process import ROOT
from tests.support.waiting import readable


@pytest.fixture
def session(pgq_db: Database) -> Iterator[Session]:
    one = Session(pgq_db.dsn)
    yield one
    one.close()


@pytest.fixture
def conn(pgq_db: Database) -> Connection:
    return pgq_db.connect()


@pytest.fixture
def shell(pgq_db: Database, capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """``shell("-c", "show queue")`` -> Answer."""

    def call(*args: str) -> Answer:
        capsys.readouterr()
        code = run(cli, ["--set", f"db={pgq_db.dsn}", "queue", "shell", *args])
        printed = capsys.readouterr()
        return Answer(code, printed.out, printed.err)

    return call


def names(conn: Connection) -> list[str]:
    return [each.queue_name for each in queues.get_queue_info(conn)]


def test_queues_and_consumers_by_statement(session: Session, conn: Connection) -> None:
    execute(session, "create queue 'a b'")
    execute(session, "create queue q")
    assert names(conn) == ["a b", "q"]
    execute(session, "alter queue * set ticker_max_count = 1, ticker_max_lag = 2 seconds")
    assert dict(execute(session, 'show queue "a b"').rows)["ticker_max_lag"] == "00:00:02"
    with pytest.raises(BadOption, match="no current queue"):
        execute(session, "register consumer c")
    execute(session, "connect queue=q")
    execute(session, "register consumer c")
    producer.insert_event(conn, "q", "t", "x")
    tick = queues.ticker(conn, "q")
    execute(session, f"register consumer d at {tick}")
    execute(session, "register consumer e copy c")
    execute(session, "register consumer f on 'a b'")
    positions = {row[1]: row[4] for row in execute(session, "show consumer").rows}
    assert positions["d"] == tick
    assert positions["c"] == positions["e"] == 1
    assert [row[1] for row in execute(session, "show consumer * on 'a b'").rows] == ["f"]
    assert [row[0] for row in execute(session, "show queue").rows] == ["a b", "q"]
    execute(session, "unregister consumer d")
    execute(session, "unregister consumer * from q")
    assert execute(session, "show consumer").rows == []
    with pytest.raises(StateError, match="would be lost"):
        execute(session, "drop queue 'a b'")
    execute(session, "drop queue 'a b' force")
    execute(session, "drop queue q")
    assert names(conn) == []


def test_cooperative_consumers_and_batches(session: Session, conn: Connection) -> None:
    execute(session, "create queue q")
    execute(session, "connect queue=q")
    execute(session, "register subconsumer w for c")
    execute(session, "register subconsumer v for c")
    assert [row[1] for row in execute(session, "show consumer").rows] == ["c", "c.v", "c.w"]
    execute(session, "register consumer plain")
    queues.force_tick(conn, "q")
    queues.ticker(conn, "q")
    with pytest.raises(StateError, match="no batch open"):
        execute(session, "show batch plain")
    opened = batches.next_batch(conn, "q", "plain")
    assert opened is not None
    (row,) = execute(session, "show batch plain").rows
    assert list(row[:3]) == [opened.id, "q", "plain"]
    assert execute(session, f"show batch {opened.id}").rows == [row]
    execute(session, "unregister subconsumer w for c from q")
    execute(session, "unregister subconsumer * for c close batch")
    assert [row[1] for row in execute(session, "show consumer").rows] == ["c", "plain"]


def test_other_sql_is_passed_through_as_the_server_writes_it(session: Session) -> None:
    result = execute(session, "select 1.50::numeric as n, null as x, '%s' as p, '{1,2}'::int[]")
    assert (result.columns, result.rows) == (
        ["n", "x", "p", "int4"],
        [["1.50", None, "%s", "{1,2}"]],
    )
    assert result.lines == ["SELECT 1"]
    assert execute(session, "create table mine (id int)").lines == ["CREATE TABLE"]
    assert execute(session, "select * from mine").rows == []
    assert execute(session, "show search_path").rows == [['"$user", public']]
    with pytest.raises(LondisteError, match="nonsense"):
        execute(session, "select nonsense")
    with pytest.raises(BadOption, match="COPY from or to the client"):
        execute(session, "copy mine from stdin")
    assert execute(session, "select 1").rows == [["1"]]


def test_queue_commands_take_part_in_a_transaction_that_was_begun(
    session: Session, conn: Connection
) -> None:
    execute(session, "begin")
    assert session.prompt.endswith("=*> ")
    execute(session, "create queue q")
    with pytest.raises(StateError, match="inside a transaction"):
        execute(session, "install pgq")
    execute(session, "rollback")
    assert names(conn) == []
    execute(session, "begin")
    execute(session, "create queue q")
    with pytest.raises(LondisteError):
        execute(session, "select nonsense")
    assert session.prompt.endswith("=!> ")
    with pytest.raises(LondisteError, match="aborted"):
        execute(session, "show queue")
    assert catalog(session).queues == ()
    execute(session, "rollback")
    execute(session, "begin")
    execute(session, "create queue q")
    execute(session, "commit")
    assert names(conn) == ["q"]


def test_a_lost_connection_is_an_error_and_the_next_statement_works(session: Session) -> None:
    with pytest.raises(LondisteError):
        execute(session, "select pg_terminate_backend(pg_backend_pid())")
    assert execute(session, "select 1").rows == [["1"]]


def test_replication_by_statement(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    root.db.execute("create table one (id int primary key); create sequence s")
    root.db.execute("create table two (id int primary key)")
    session = Session(root.dsn, queue=QUEUE)
    try:
        assert {row[1] for row in execute(session, "londiste missing").rows} == {
            "public.one",
            "public.two",
            "public.s",
        }
        execute(session, "londiste add table one, two with expect_sync, when='id > 0'")
        assert [row[0] for row in execute(session, "londiste tables").rows] == [
            "public.one",
            "public.two",
        ]
        shown = dict(execute(session, "show table one").rows)
        assert "when=id > 0" in str(shown) and "queue q" in shown
        execute(session, "londiste add sequence s")
        assert [row[0] for row in execute(session, "londiste seqs").rows] == ["public.s"]
        assert execute(session, "show sequence s").rows[0][0] == "q"
        execute(session, "londiste remove table two")
        execute(session, "londiste remove sequence s")
        assert [row[0] for row in execute(session, "londiste tables").rows] == ["public.one"]
        assert execute(session, "show table two").rows[0][0] == "not replicated"
        nodes = {row[0]: row[1] for row in execute(session, "show node *").rows}
        assert set(nodes) == {"root", "leaf"}
        execute(session, "connect node=leaf")
        assert session.conn.info.dbname == leaf.db.name
        with pytest.raises(LondisteError, match="no node nope"):
            execute(session, "connect node=nope")
        assert session.conn.info.dbname == leaf.db.name
    finally:
        session.close()


def test_it_installs_and_shows_versions(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    session = Session(database.dsn)
    try:
        execute(session, "install pgq")
        versions = dict(execute(session, "show version").rows)
        assert versions["schema pgq"] and versions["schema londiste"] is None
        assert "PostgreSQL" in versions
        assert "files ran" in execute(session, "install londiste").lines[0]
        assert execute(session, "show help").rows
    finally:
        session.close()


def test_without_a_terminal_the_first_error_ends_it_with_its_code(
    pgq_db: Database, conn: Connection, shell: Callable[..., Answer], tmp_path: Path
) -> None:
    done = shell("-c", "create queue a; create queue b", "-c", "show queue")
    assert (done.code, names(conn)) == (0, ["a", "b"])
    assert done.out.splitlines()[:2] == ["create queue a", "create queue b"]
    assert (
        shell("-c", "select 1 as n; select 2 as m", "--json").out
        == '{"version": 1, "rows": [{"n": "1"}]}\n{"version": 1, "rows": [{"m": "2"}]}\n'
    )
    failed = shell("-c", "create queue c; drop queue nope; create queue d")
    assert (failed.code, names(conn)) == (2, ["a", "b", "c"])
    assert "hint: " in failed.err
    script = tmp_path / "x.sql"
    script.write_text("-- comment\ncreate\n queue d;\nexit;\ncreate queue e;\n")
    assert shell("-f", str(script)).code == 0
    assert names(conn) == ["a", "b", "c", "d"]
    assert shell("-f", str(tmp_path / "missing")).code == 2
    assert shell("-Q", "nope", "-c", "show queue").code == 2
    assert shell("-d", "no_such_database", "-c", "show queue").code == 2
    assert shell("-d", pgq_db.name, "-U", "postgres", "-c", "show queue").code == 0
    assert shell("-c", "select nonsense").code == 1
    piped = subprocess.run(
        [sys.executable, "-m", "londiste", "queue", "shell", "--db", pgq_db.dsn],
        input="create queue e;\nalter queue e ste x=1;\ncreate queue f;",
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=60,
        check=False,
    )
    assert (piped.returncode, names(conn)) == (2, ["a", "b", "c", "d", "e"])
    assert "hint: did you mean set?" in piped.stderr


@pytest.mark.parametrize("last", ["create queue e", "exit"])
def test_a_script_that_ends_in_a_transaction_is_an_error(
    shell: Callable[..., Answer], conn: Connection, last: str
) -> None:
    failed = shell("-c", "begin; create queue d", "-c", last)
    assert failed.code == 2, failed
    assert "the transaction was not committed: rolled back" in failed.err
    assert "hint: end the statements with commit" in failed.err
    assert names(conn) == []
    assert shell("-c", "begin; create queue d", "-c", "commit; exit").code == 0


class Terminal:
    """The shell in a pseudo-terminal: what is typed, and what is seen."""

    def __init__(self, dsn: str, history: Path) -> None:
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.environ.update(
                PYTHONPATH=str(ROOT), LONDISTE_HISTORY=str(history), TERM="dumb", NO_COLOR="1"
            )
            os.environ.pop("INPUTRC", None)
            os.execv(
                sys.executable, [sys.executable, "-m", "londiste", "queue", "shell", "--db", dsn]
            )
        self.seen = ""
        self.at = 0

    def type(self, text: str) -> None:
        os.write(self.file, text.encode())

    def until(self, pattern: str, *, timeout: float = 30.0) -> str:
        """Waits until something new matches; all new text up to the end of the match."""
        deadline = time.monotonic() + timeout
        while True:
            found = re.search(pattern, self.seen[self.at :])
            if found:
                text = self.seen[self.at : self.at + found.end()]
                self.at += found.end()
                return text
            ready = readable([self.file], max(0, deadline - time.monotonic()))
            assert ready, f"waited in vain for {pattern!r} in {self.seen[self.at :]!r}"
            try:
                self.seen += os.read(self.file, 4096).decode(errors="replace")
            except OSError:
                raise AssertionError(f"ended before {pattern!r}: {self.seen!r}") from None

    def interrupt(self) -> None:
        """^C until there is a prompt.

        Python's line editor sleeps on when the signal comes just before it looks for the next key,
        and hears of it with that key.
        """
        for _ in range(30):
            self.type("\x03")
            with contextlib.suppress(AssertionError):
                self.until(r"=> ", timeout=1.0)
                return
        raise AssertionError(f"no prompt: {self.seen!r}")

    def end(self, *, timeout: float = 30.0) -> int:
        """Reads all there is; the exit code."""
        while True:
            ready = readable([self.file], timeout)
            assert ready, f"does not end: {self.seen[self.at :]!r}"
            try:
                data = os.read(self.file, 4096)
            except OSError:
                break
            if not data:
                break
            self.seen += data.decode(errors="replace")
        _, status = os.waitpid(self.pid, 0)
        os.close(self.file)
        return os.waitstatus_to_exitcode(status)


@pytest.fixture
def terminal(pgq_db: Database, tmp_path: Path) -> Iterator[Callable[[], Terminal]]:
    started: list[Terminal] = []

    def start() -> Terminal:
        one = Terminal(pgq_db.dsn, tmp_path / "history")
        started.append(one)
        one.until(r"=> ")
        return one

    yield start
    for one in started:
        try:
            os.kill(one.pid, signal.SIGKILL)
            os.waitpid(one.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def test_a_terminal_has_completion_lines_interrupt_and_end(
    terminal: Callable[[], Terminal], conn: Connection
) -> None:
    queues.create_queue(conn, "some long name")
    shell = terminal()
    # TAB finishes words and names, quotes included.
    shell.type("cre\tque\tq1;\r")
    shell.until(r"create queue q1\r?\n")
    shell.until(r"=> ")
    assert "q1" in names(conn)
    shell.type('drop queue "some l\t;\r')
    shell.until(r"drop queue some long name with \d+ bytes")
    shell.until(r"=> ")
    assert names(conn) == ["q1"]
    # A statement of several lines; completion knows the lines above.
    shell.type("register consumer\r")
    shell.until(r"-> ")
    shell.type("c on q\t;\r")
    shell.until(r"register consumer c on queue q1")
    shell.until(r"=> ")
    assert [one.consumer_name for one in queues.get_consumer_info(conn, "q1")] == ["c"]
    # ^C clears what was typed, also of the lines above.
    shell.type("drop queue\r")
    shell.until(r"-> ")
    shell.type("q1 force")
    shell.until(r"q1 force")
    shell.interrupt()
    shell.type("select 6 * 7 as n;\r")
    assert "42" in shell.until(r"SELECT 1")
    shell.until(r"=> ")
    # An error is shown with its hint, and the prompt comes again.
    shell.type("drop queue q;\r")
    assert "error: no queue q" in shell.until(r"hint: did you mean q1\?")
    shell.until(r"=> ")
    # ^C ends a statement that runs.
    shell.type("select pg_sleep(3600);\r")
    shell.until(r"pg_sleep\(3600\);")
    running = (
        "select 1 from pg_stat_activity where query like 'select pg_sleep%' and state = 'active'"
    )
    deadline = time.monotonic() + 30
    while conn.execute(running).fetchone() is None:
        assert time.monotonic() < deadline
    shell.type("\x03")
    shell.until(r"cancelled")
    shell.until(r"=> ")
    shell.type("\x04")
    assert shell.end() == 0
    assert names(conn) == ["q1"]


def test_history_goes_from_session_to_session(
    terminal: Callable[[], Terminal], conn: Connection, tmp_path: Path
) -> None:
    first, second = terminal(), terminal()
    # The answer has no semicolon; the prompt before it may be painted again while one types.
    first.type("create queue one;\r")
    first.until(r"create queue one\r?\n")
    first.until(r"=> ")
    second.type("create queue two;\r")
    second.until(r"create queue two\r?\n")
    second.until(r"=> ")
    second.type("\x04")
    assert second.end() == 0
    first.type("exit\r")
    assert first.end() == 0
    history = (tmp_path / "history").read_text()
    assert history.splitlines() == ["create queue two;", "create queue one;", "exit"]
    assert (tmp_path / "history").stat().st_mode & 0o077 == 0
    third = terminal()
    third.type("\x10\x10")  # ^P ^P: the line before the last
    third.until(r"create queue one;")
    third.type("\r")
    third.until(r"nothing to do")
    third.until(r"=> ")
    third.type("\x04")
    assert third.end() == 0
