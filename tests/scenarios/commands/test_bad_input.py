"""Invalid input: one error line, a hint, an exit code, and no partial effect."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import conninfo

from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import Database, Server, create_database
from tests.support.scenarios.harness import QUEUE, Cascade, Node
from tests.support.scenarios.processes import Done

USAGE, STATE, INSTALL, TRANSIENT = 2, 3, 4, 6

TABLES = """
create table public.keyed (id int primary key, t text);
create table public.other (id int primary key, t text);
create table public.keyless (n int);
"""
NOWHERE = "host=/nonexistent/directory port=1 dbname=x"


@pytest.fixture(scope="module")
def cascade(cluster: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cascade]:
    """One for all tests: they all see to it that nothing is changed."""
    made: list[Database] = []

    def make(*, on: Server | None = None, pgq: bool = False) -> Database:
        made.append(create_database(on or cluster, pgq=pgq))
        return made[-1]

    cascade = Cascade(tmp_path_factory.mktemp("cascade"), make)
    yield cascade
    cascade.close()
    for database in made:
        database.drop()


@pytest.fixture(scope="module")
def root(cascade: Cascade) -> Node:
    """A root with a replicated table, and tables that are not replicated."""
    root = cascade.root(schema=TABLES)
    cascade.londiste(root, "add-table", "public.keyed")
    return root


@pytest.fixture(scope="module")
def leaf(cascade: Cascade, root: Node) -> Node:
    """A leaf whose table nobody copies, because no worker runs."""
    leaf = cascade.leaf(provider=root, schema=TABLES)
    cascade.londiste(leaf, "add-table", "public.keyed")
    return leaf


@pytest.fixture(scope="module")
def new(cascade: Cascade) -> Node:
    """A database that is no node, with our SQL."""
    return cascade.node("new", schema=TABLES, installed=True)


@pytest.fixture(scope="module")
def bare(cascade: Cascade) -> Node:
    """A database without our SQL."""
    return cascade.node("bare")


@pytest.mark.parametrize(
    "command",
    [
        ("add-table", "public.keyed"),
        ("remove-table", "public.keyed"),
        ("resync", "public.keyed"),
        ("tables",),
        ("missing",),
        ("status",),
        ("members",),
        ("node-info",),
        ("compare",),
        ("wait-sync",),
        ("wait-root",),
        ("worker", "--once"),
        ("copy", "public.keyed"),
        ("pause",),
    ],
    ids=lambda command: command[0],
)
def test_a_wrong_queue(command: tuple[str, ...], cascade: Cascade, root: Node, leaf: Node) -> None:
    other = replace(leaf, config=cascade.directory / "other.toml")
    cascade.write_settings(other, leaf.database.dsn, queue_name='"nope"')
    refused(cascade, other, command, USAGE, r"nope", unchanged=[root, leaf])


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("create-root", "again"), r"root|node"),
        (("create-leaf", "again", "--provider", "{root}"), r"root|node"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_database_that_is_another_node_already(
    command: tuple[str, ...], said: str, cascade: Cascade, root: Node
) -> None:
    command = tuple(word.format(root=root.database.dsn) for word in command)
    refused(cascade, root, command, None, said, unchanged=[root])


def test_a_leaf_with_the_name_of_another_node(
    cascade: Cascade, root: Node, leaf: Node, new: Node
) -> None:
    command = ("create-leaf", "leaf", new.database.dsn, "--provider", root.database.dsn)
    refused(cascade, new, command, USAGE, r"node leaf", unchanged=[root, leaf, new])


def test_a_provider_without_the_queue(cascade: Cascade, root: Node, new: Node) -> None:
    empty = cascade.node("empty", installed=True)
    command = ("create-leaf", "new", new.database.dsn, "--provider", empty.database.dsn)
    refused(cascade, new, command, USAGE, QUEUE, unchanged=[root, empty, new])


def test_a_provider_that_cannot_be_reached(cascade: Cascade, new: Node) -> None:
    command = ("create-leaf", "new", new.database.dsn, "--provider", NOWHERE)
    refused(cascade, new, command, TRANSIENT, r"/nonexistent", unchanged=[new])


def test_a_leaf_below_a_leaf(cascade: Cascade, root: Node, leaf: Node, new: Node) -> None:
    command = ("create-leaf", "new", new.database.dsn, "--provider", leaf.database.dsn)
    refused(cascade, new, command, STATE, r"leaf", unchanged=[root, leaf, new])


@pytest.mark.parametrize("command", ["worker", "status", "add-table"])
def test_a_database_without_a_node(command: str, cascade: Cascade, new: Node) -> None:
    args = {"worker": ("--once",), "status": (), "add-table": ("public.keyed",)}[command]
    refused(cascade, new, (command, *args), USAGE, QUEUE, unchanged=[new])


@pytest.mark.parametrize("command", ["worker", "status", "create-root", "tables", "compare"])
def test_a_database_without_our_sql(command: str, cascade: Cascade, bare: Node) -> None:
    args = {"worker": ("--once",), "create-root": ("x", bare.database.dsn)}.get(command, ())
    done = refused(cascade, bare, (command, *args), INSTALL, r".", unchanged=[bare])
    assert "londiste install" in done.err


@pytest.mark.parametrize("on", ["root", "leaf"])
@pytest.mark.parametrize(
    "command",
    [
        ("add-table", "public.nope"),
        ("add-table", "public.other", "public.nope"),
        ("remove-table", "public.nope"),
        ("resync", "public.nope"),
        ("compare", "public.nope"),
    ],
    ids=" ".join,
)
def test_a_wrong_table(
    on: str, command: tuple[str, ...], cascade: Cascade, root: Node, leaf: Node
) -> None:
    node = cascade.nodes[on]
    if on == "root" and command[0] in {"compare", "resync"}:
        pytest.skip("not for a root")
    refused(cascade, node, command, USAGE, r"public\.(nope|other)", unchanged=[root, leaf])


@pytest.mark.parametrize("command", [("compare",), ("resync", "public.keyed")], ids=" ".join)
def test_a_command_that_is_not_for_a_root(
    command: tuple[str, ...], cascade: Cascade, root: Node
) -> None:
    refused(cascade, root, command, None, r"root", unchanged=[root])


def test_a_table_that_the_provider_does_not_replicate(
    cascade: Cascade, root: Node, leaf: Node
) -> None:
    refused(
        cascade, leaf, ("add-table", "public.other"), USAGE, r"public\.other",
        unchanged=[root, leaf],
    )  # fmt: skip


def test_a_table_without_key(cascade: Cascade, root: Node) -> None:
    done = refused(
        cascade, root, ("add-table", "public.other", "public.keyless"), USAGE,
        r"public\.keyless", unchanged=[root],
    )  # fmt: skip
    assert "--insert-only" in done.err


def test_a_server_that_cannot_be_reached(cascade: Cascade) -> None:
    node = cascade.node("away")
    cascade.write_settings(node, NOWHERE)
    for command in (("status",), ("install",), ("add-table", "x"), ("worker", "--once")):
        refused(cascade, node, command, TRANSIENT, r"/nonexistent")


def test_a_database_that_is_not_there(cascade: Cascade) -> None:
    node = cascade.node("away")
    dsn = conninfo.make_conninfo(node.database.dsn, dbname="no_such_database")
    cascade.write_settings(node, dsn)
    refused(cascade, node, ("status",), USAGE, r"no_such_database")


def test_a_wrong_password(own_cascade: Cascade, new_cluster: Callable[..., Cluster]) -> None:
    cascade = own_cascade
    server = new_cluster("password", port=True)
    node = cascade.node("locked", on=server)
    wrong = conninfo.make_conninfo(node.database.dsn, password="not the right one")
    cascade.write_settings(node, wrong)
    for command in (("status",), ("install",), ("worker", "--once")):
        done = refused(cascade, node, command, USAGE, r"password", unchanged=[node])
        assert "not the right one" not in done.out + done.err


@pytest.mark.parametrize(
    ("name", "text", "line", "said"),
    [
        ("a.toml", '[londiste]\ndb = "{dsn}"\nqueue_nmae = "x"\n', 3, r"queue_nmae"),
        ("a.toml", '[londiste]\ndb = "{dsn}"\n\n[londist]\nx = 1\n', 4, r"londist"),
        ("a.ini", "[londiste]\ndb = {dsn}\nqueue_name = q\nloop_dealy = 3\n", 4, r"loop_dealy"),
        (
            "a.toml",
            '[londiste]\ndb = "{dsn}"\nqueue_name = "q"\nparallel_copies = 0\n',
            4,
            r"parallel_copies",
        ),
        ("a.toml", '[londiste]\ndb = "{dsn}"\nqueue_name = \n', 3, r"TOML"),
    ],
    ids=["key", "section", "ini key", "value", "syntax"],
)
def test_an_unknown_setting_is_named_with_file_and_line(
    name: str, text: str, line: int, said: str, cascade: Cascade, database: Database, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_text(text.replace("{dsn}", database.dsn))
    done = cascade.londiste(file, "worker", "--once", accept=None)
    polite(done, USAGE, said)
    place = rf"{re.escape(str(file))}:{line}\b|{re.escape(str(file))}.*line {line}\b"
    assert re.search(place, done.err), done.err
    assert catalog(database) == {}


def test_a_missing_file_and_a_missing_setting(cascade: Cascade, tmp_path: Path) -> None:
    polite(cascade.londiste(tmp_path / "no.toml", "status", accept=None), USAGE, r"no\.toml")
    (tmp_path / "short.toml").write_text("[londiste]\nqueue_name = 'x'\n")
    polite(cascade.londiste(tmp_path / "short.toml", "status", accept=None), USAGE, r"\bdb\b")


@pytest.mark.parametrize(
    "args", [("no-such-command",), ("status", "--no-such-option"), ("wait-sync", "too", "many")]
)
def test_a_wrong_command_line(args: Sequence[str], cascade: Cascade) -> None:
    polite(cascade.londiste(None, *args, accept=None), USAGE, r".")


@pytest.mark.slow
def test_a_second_worker_for_the_same_node(own_cascade: Cascade) -> None:
    cascade = own_cascade
    root, leaf = _root_and_leaf(cascade)
    cascade.start_ticker(root)
    first = cascade.start_worker(leaf)
    cascade.wait_sync(leaf)
    for once in (("--once",), ()):
        done = cascade.londiste(leaf, "worker", *once, accept=None, seconds=30)
        polite(done, STATE, r"worker")
    assert first.running()
    cascade.wait_root(leaf)


def test_a_daemon_that_cannot_work_says_so_to_whoever_starts_it(
    cascade: Cascade, leaf: Node, tmp_path: Path
) -> None:
    files = ("--set", f"pidfile={tmp_path}/pid", "--set", f"logfile={tmp_path}/log")
    for wrong, code in ((f"db={NOWHERE}", TRANSIENT), ("queue_name=none", USAGE)):
        done = cascade.londiste(leaf, *files, "--set", wrong, "worker", "-d", accept=None)
        polite(done, code, r".")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_daemon_goes_into_the_background_once(own_cascade: Cascade, tmp_path: Path) -> None:
    cascade = own_cascade
    _, leaf = _root_and_leaf(cascade)
    files = ("--set", f"pidfile={tmp_path}/pid", "--set", f"logfile={tmp_path}/log")
    cascade.londiste(leaf, *files, "worker", "-d")
    polite(cascade.londiste(leaf, *files, "worker", "-d", accept=None), STATE, r"already running")
    cascade.londiste(leaf, *files, "worker", "-s")
    cascade.wait(lambda: not (tmp_path / "pid").exists(), "its end")


@pytest.mark.slow
def test_a_second_copy_for_the_same_node(own_cascade: Cascade) -> None:
    cascade = own_cascade
    root, leaf = _root_and_leaf(cascade)
    cascade.start_ticker(root)
    with psycopg.connect(leaf.database.dsn) as lock:
        # The copy cannot get on, so that it is there when the second one comes.
        lock.execute("lock table public.keyed in access exclusive mode")
        worker = cascade.start_worker(leaf)
        cascade.wait_state(leaf, "public.keyed", "in-copy")
        # Not only started: which of two copies comes first is decided by the lock.
        locked = (
            "select count(*) from pg_locks join pg_stat_activity using (pid)"
            " where locktype = 'advisory' and granted and application_name = 'londiste copy'"
        )
        cascade.wait(lambda: leaf.database.value(locked), "the copy process")
        done = cascade.londiste(leaf, "copy", "public.keyed", accept=None, seconds=30)
        polite(done, STATE, r"copies")
    cascade.wait_sync(leaf)
    assert worker.running()


@pytest.fixture
def own_cascade(
    tmp_path: Path,
    new_cluster: Callable[..., Cluster],
    new_database: Callable[..., Database],
) -> Iterator[Cascade]:
    """For tests that do change something."""
    cascade = Cascade(tmp_path, new_database)
    yield cascade
    cascade.close()


def _root_and_leaf(cascade: Cascade) -> tuple[Node, Node]:
    root = cascade.root(schema=TABLES)
    leaf = cascade.leaf(provider=root, schema=TABLES)
    cascade.add_tables("public.keyed")
    return root, leaf


def refused(
    cascade: Cascade,
    node: Node,
    command: Sequence[str],
    code: int | None,
    said: str,
    *,
    unchanged: Sequence[Node] = (),
) -> Done:
    """Runs a command that must be refused, and see that nothing has changed anywhere."""
    before = [catalog(n.database) for n in unchanged]
    done = cascade.londiste(node, *command, accept=None, seconds=60)
    polite(done, code, said)
    assert [catalog(n.database) for n in unchanged] == before
    return done


def polite(done: Done, code: int | None, said: str) -> None:
    """``error:`` in one line, then perhaps ``detail:``, then ``hint:``; nothing else."""
    assert done.code == code or (code is None and done.code in {USAGE, STATE}), str(done)
    assert done.out == "", str(done)
    lines = done.err.splitlines()
    labels = [line.partition(":")[0] for line in lines if not _is_log(line)]
    labels = [label for label in labels if label != "warning"]
    assert labels in (["error", "hint"], ["error", "detail", "hint"]), str(done)
    error = next(line for line in lines if line.startswith("error: "))
    assert re.search(said, done.err), str(done)
    assert not error.endswith("."), error
    assert error.removeprefix("error: ")[:1] != "", error
    assert "Traceback" not in done.err


def catalog(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """Everything of ours in a database: rows of our tables, triggers, functions, keys."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    tables = database.execute(
        "select format('%I.%I', schemaname, tablename) from pg_tables"
        " where schemaname in ('pgq', 'pgq_node', 'londiste', 'pgq_ext') order by 1"
    )
    for (table,) in tables:
        found[table] = sorted(database.execute(f"select t::text from {table} t"))
    for name, query in {
        "triggers": "select tgrelid::regclass::text, tgname::text from pg_trigger"
        " where not tgisinternal",
        "functions": "select oid::regprocedure::text from pg_proc where pronamespace in"
        " (select oid from pg_namespace where nspname in ('pgq', 'pgq_node', 'londiste'))",
        "constraints": "select conrelid::regclass::text, conname::text from pg_constraint"
        " where connamespace = 'public'::regnamespace",
        "tables": "select relname::text from pg_class where relnamespace = 'public'::regnamespace",
    }.items():
        rows = sorted(database.execute(query))
        if rows:
            found[name] = rows
    return found


def _is_log(line: str) -> bool:
    """A log line of a daemon: it starts with a time."""
    return re.match(r"\d{4}-\d\d-\d\d ", line) is not None
