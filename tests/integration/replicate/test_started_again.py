"""``replicate`` on a set-up that works: nothing beside it stops it, a dry run shows the rest."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import psycopg
import pytest

from londiste.cli import cli
from londiste.cli.errors import run
from londiste.cli.setup import live_state
from londiste.daemon.pidfile import PidFile
from londiste.daemon.signals import Signals
from londiste.errors import StateError
from londiste.orchestration.connections import Connections
from londiste.orchestration.daemons import Daemons, Found
from londiste.orchestration.steps import execute
from londiste.replicate.databases import ReplicateSettings, identify, state_file
from londiste.replicate.setup import Selection, not_replicated
from londiste.replicate.state import look_at_all
from londiste.replication.commands import add_table
from londiste.replication.model import TableOptions
from londiste.replication.tablesync.stopped import stored
from tests.fixtures.cascade import QUEUE, Node, Nodes
from tests.support.servers.kept_nodes import kept_nodes

SCHEMA = """
create table a (id int primary key, v varchar(9));
create table b (id int primary key);
insert into b values (1);
"""


@pytest.fixture
@kept_nodes
def pair(nodes_of: Nodes) -> tuple[Node, Node]:
    """Root and leaf of queue ``q``; the leaf has table a, and no longer the table b of the root."""
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    for node, names in ((root, ["a", "b"]), (leaf, ["a"])):
        node.db.execute(SCHEMA)
        with Connections(name="tests") as sites:
            options = TableOptions(expect_sync=node is leaf)
            execute(add_table.plan(sites, node.dsn, QUEUE, names, options).steps, sites)
    # No event waits for a tick, however long the pair is kept.
    root.db.execute("select pgq.force_tick('q')")
    root.db.execute("select pgq.ticker('q')")
    return root, leaf


def dry(
    pair: tuple[Node, Node], capsys: pytest.CaptureFixture[str], *more: str
) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run(cli, ["replicate", *(n.dsn for n in pair), "--queue", QUEUE, "--dry-run", *more])
    return code, *capsys.readouterr()


def test_a_set_up_that_works_is_not_refused_because_of_its_tables_or_others(
    pair: tuple[Node, Node], capsys: pytest.CaptureFixture[str]
) -> None:
    root, leaf = pair
    code, _, said = dry(pair, capsys)
    assert code == 0
    assert "table public.b is not added: tables of the target database are not empty" in said
    assert "or exclude it: --exclude public.b" in said
    # The tables that are replicated differ, and a new one would run code of the source.
    leaf.db.execute("alter table a drop constraint a_pkey, alter v type varchar(5)")
    root.db.execute("create function f(int) returns int immutable language sql as 'select $1'")
    root.db.execute("create table c (id int primary key, check (f(id) > 0))")
    code, _, said = dry(pair, capsys, "--exclude", "b")
    assert code == 0
    assert "warning: table public.a has the primary key (id)" in said
    assert "warning: table public.a has a column v" in said
    assert "warning: table public.c is not added: missing tables contain code" in said
    assert "public.b" not in said
    # A table that has another name now is not added by it.
    root.db.execute("alter table b rename to d")
    code, printed, said = dry(pair, capsys, "--exclude", "c")
    assert code == 0
    assert "table public.d is not added: it is replicated by its old name public.b" in said
    assert "public.d" not in printed
    root.db.execute("alter table d rename to b")
    # Where no selected table is replicated it is a first set-up.
    code, _, said = dry(pair, capsys, "b")
    assert code == 3 and "replication cannot start: tables of the target" in said


def test_a_table_that_the_target_alone_lacks_is_named(
    pair: tuple[Node, Node], capsys: pytest.CaptureFixture[str]
) -> None:
    root, leaf = pair
    found = identify(ReplicateSettings(queue_name=QUEUE), root.dsn, [leaf.dsn])
    with found.sites() as sites:
        assert not_replicated(sites, [found], Selection()) == ["public.b on leaf"]
        assert not_replicated(sites, [found], Selection(exclude=("b",))) == []
        assert not_replicated(sites, [found], Selection(patterns=("a",))) == []
    assert run(cli, ["replicate", root.dsn, leaf.dsn, "--queue", QUEUE, "--status"]) == 0
    assert "warning: table public.b is not replicated on leaf\n" in capsys.readouterr().err


def test_a_copy_that_only_an_operator_continues_ends_the_wait(
    pair: tuple[Node, Node], capsys: pytest.CaptureFixture[str]
) -> None:
    root, leaf = pair
    settings = ReplicateSettings(queue_name=QUEUE)
    found = identify(settings, root.dsn, [leaf.dsn])
    worker = found.targets[0].worker
    text = stored("no key", "create one", StateError("no key"), 2)
    leaf.db.execute("update londiste.table_info set merge_state = 'in-copy'")

    def fails() -> None:
        leaf.db.execute(
            "insert into pgq_node.local_state (queue_name, consumer_name, provider_node,"
            " last_tick_id, cur_error) values (%s, %s, 'root', 1, %s)"
            " on conflict (queue_name, consumer_name) do update set cur_error = %s",
            *(QUEUE, f"{worker}.copy.public.a", text, text),
        )

    # The cause of an error of before may be removed: it is not reported until it comes again.
    fails()
    looks = 0

    def view(copies: object, lines: object) -> None:
        nonlocal looks
        looks += 1
        if looks > 1:
            fails()

    children = Daemons([], Found, hint="")
    with contextlib.closing(Signals()) as signals, pytest.raises(StateError) as error:
        live_state.stay([found], signals, children, view, until_sync="again")
    # The look after it came again.
    assert looks == 3
    assert error.value.message == "an operator has to continue the copy of table public.a to leaf"
    assert error.value.hint == "create one; then again"


def test_a_dry_run_shows_what_remains(
    pair: tuple[Node, Node], capsys: pytest.CaptureFixture[str]
) -> None:
    root, leaf = pair
    assert dry(pair, capsys, "--exclude", "b")[1] == "nothing to do\n"
    leaf.db.execute("truncate b")
    below = "leaf: create if missing and add {}, to be copied"
    assert dry(pair, capsys)[1] == f"1. {below.format('table public.b')}\n"
    root.db.execute("create table c (id int primary key)")
    assert dry(pair, capsys)[1].splitlines() == [
        "1. root: add table public.c",
        f"2. {below.format('2 tables')}",
    ]


def test_tables_that_lack_changes_are_told_with_their_remedies(
    pair: tuple[Node, Node], capsys: pytest.CaptureFixture[str]
) -> None:
    root, leaf = pair
    root.db.execute("drop table b; drop table a; create table a (id int primary key)")
    leaf.db.execute("alter table a rename to a8")
    code, steps, said = dry(pair, capsys, "--exclude", "b")
    assert (code, steps) == (0, "nothing to do\n")
    warnings = said.splitlines()
    lost = "root: table public.{}: its changes are not captured: it "
    restored = "londiste triggers --restore public.a, then on the nodes below: londiste resync"
    settings = "with the settings of root: "
    assert any(lost.format("a") in one and f"; {settings}{restored}" in one for one in warnings)
    assert any(
        lost.format("b") in one and f"; {settings}londiste remove-table public.b" in one
        for one in warnings
    )
    renamed = "leaf: table public.a: it was renamed to public.a8"
    back = '; on node leaf: alter table "public"."a8" rename to "a"; '
    assert any(renamed in one and back in one for one in warnings)
    assert said.count("settings of other commands: londiste replicate") == 1

    assert run(cli, ["replicate", root.dsn, leaf.dsn, "--queue", QUEUE, "--status"]) == 3
    shown, told = capsys.readouterr()
    first, second, *_ = shown.splitlines()
    assert first.startswith("root: root, 2 tables; error: table public.a: its changes are not ")
    assert second.endswith("; 1 table; error: see root; error: " + renamed.removeprefix("leaf: "))
    assert back in told and restored in told and "--save FILE, then -c FILE --node NAME" in told

    found = identify(ReplicateSettings(queue_name=QUEUE), root.dsn, [leaf.dsn])
    with Connections(name="test") as sites:
        ((above, below),) = look_at_all(sites, [found])
    assert not above.in_sync and not below.in_sync
    assert [one.kind for one in (*above.losses, *below.losses)] == [
        *("capture-lost", "capture-lost"),
        "renamed",
    ]


def test_a_table_that_ddl_has_rewritten_is_not_in_sync(
    pair: tuple[Node, Node], capsys: pytest.CaptureFixture[str]
) -> None:
    root, leaf = pair
    root.db.execute("insert into a values (1)")
    root.db.execute("alter table a drop column v")
    root.db.execute("alter table a add column v varchar(9) default 'new'")
    capsys.readouterr()
    assert run(cli, ["replicate", root.dsn, leaf.dsn, "--queue", QUEUE, "--status"]) == 3
    first, second, *_ = (shown := capsys.readouterr()).out.splitlines()
    assert first.startswith(
        "root: root, 2 tables; error: table public.a was changed on this node without events,"
    )
    assert "in sync, 1 table" not in second and second.endswith("; error: see root")
    accept = "select londiste.accept_rewrite(E'q', E'public.a')"
    assert "; on each node below: londiste " in shown.err
    assert f"; then on node root: {accept}\n" in shown.err

    root.db.execute(accept)
    leaf.db.execute("alter table a alter column v type int using 1")
    found = identify(ReplicateSettings(queue_name=QUEUE), root.dsn, [leaf.dsn])
    with Connections(name="test") as sites:
        ((above, below),) = look_at_all(sites, [found])
    assert not above.errors and not above.losses and not below.source_loses
    assert [one.kind for one in below.losses] == ["rewritten"] and not below.in_sync


def test_hints_of_the_status_are_for_the_directory_where_they_are_printed(
    pair: tuple[Node, Node],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root, leaf = pair
    monkeypatch.chdir(tmp_path)
    again = "copy the table again: londiste {0}resync public.a; or londiste {0}events skip 7"
    error = f"no x; hint: {again.format('')}"
    leaf.db.execute("select pgq_node.set_consumer_error('q', 'w_leaf', %s)", error)
    call = ["replicate", root.dsn, leaf.dsn, "--queue", QUEUE, "--status"]

    def shown() -> tuple[str, str]:
        capsys.readouterr()
        assert run(cli, call) == 0
        printed = capsys.readouterr()
        return printed.out.splitlines()[1], printed.err

    settings = "settings of other commands: londiste replicate "
    line, more = shown()
    assert line.endswith(f"; hint: with the settings of leaf: {again.format('')}")
    assert settings in more
    Path("londiste.toml").write_text(
        f'[queue]\nname = "q"\n[nodes.root]\ndb = "{root.dsn}"\nrole = "root"\n'
        f'[nodes.leaf]\ndb = "{leaf.dsn}"\nrole = "leaf"\nprovider = "root"\n'
    )
    line, more = shown()
    assert line.endswith(f"; hint: {again.format('--node leaf ')}") and settings not in more


def test_a_file_is_saved_beside_a_process_that_replicates(
    pair: tuple[Node, Node], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "londiste.toml"
    call = ["replicate", *(n.dsn for n in pair), "--queue", QUEUE, "--exclude", "b"]
    lock = f"select pg_advisory_lock(hashtextextended('londiste worker {QUEUE}', 0))"
    with contextlib.ExitStack() as stack:
        # What runs where a process replicates: a ticker, and the worker of each node.
        for node, name in ((pair[0], "ticker"), (pair[0], "worker"), (pair[1], "worker")):
            conn = psycopg.connect(node.dsn, application_name=f"londiste {name} of x ticks")
            stack.enter_context(conn)
            if name == "worker":
                conn.execute(lock)
        assert run(cli, [*call, "--save", str(file)]) == 0
    said = capsys.readouterr().err
    assert f"saved {file}" in said
    assert "ticker and workers continue in another process" in said
    # It did not stay to watch.
    assert "root, 2 tables" not in said
    assert file.read_text().count("[nodes.") == 2


def test_a_second_command_ends_beside_a_process_in_the_background(
    pair: tuple[Node, Node],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    root, leaf = pair
    call = ["replicate", root.dsn, leaf.dsn, "--queue", QUEUE, "--exclude", "b"]
    pid = state_file(ReplicateSettings(queue_name=QUEUE), root.dsn, leaf.dsn, "pid")
    pid.parent.mkdir(parents=True)
    # It has just started: no daemon of it runs yet.
    with PidFile(pid):
        assert run(cli, call) == 0
    said = capsys.readouterr().err
    assert f"already running in the background: process {os.getpid()}" in said
    assert "look: " in said and "stop: " in said and "root, 2 tables" not in said
