"""Mistakes of a call are found before ``replicate`` and ``plan`` change a database."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from londiste.cli import cli
from londiste.cli.errors import run
from londiste.daemon.pidfile import PidFile
from londiste.orchestration import steps as plan
from londiste.orchestration.connections import Connections
from londiste.replicate import remove as removal
from londiste.replicate.databases import ReplicateSettings, identify
from tests.fixtures.cascade import Nodes, refused_at_once
from tests.fixtures.cluster import Database
from tests.fixtures.one_file import OneFile

MISTAKES = {
    ("--where", "id >"): "--where id >: syntax error",
    ("--where", "nocol = 1"): 'column "nocol" does not exist',
    ("--where", "v < now()"): "must be marked IMMUTABLE",
    ("--save", "absent/x.toml"): "No such file or directory",
    # Reading it would never end.
    ("--save", "/dev/full"): "the file exists",
    ("--drop-tables",): "--drop-tables requires --remove",
}


def test_a_mistake_of_the_call_leaves_both_databases_as_they_are(
    new_database: Callable[..., Database],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, target = new_database(pgq=False), new_database(pgq=False)
    source.execute("create table t (id int primary key, v timestamptz)")
    monkeypatch.chdir(tmp_path)
    for words, said in MISTAKES.items():
        assert run(cli, ["replicate", source.dsn, target.dsn, *words]) == 2, words
        printed = capsys.readouterr().err
        assert said in printed and "hint: " in printed and "Traceback" not in printed
        for database in (source, target):
            assert database.value("select to_regnamespace('pgq')") is None
        assert target.value("select to_regclass('t')") is None
    assert "--remove --drop-tables" in printed and source.name in printed
    # The directory of its state cannot be made.
    no_directory = tmp_path / "file"
    no_directory.write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(no_directory))
    assert run(cli, ["replicate", source.dsn, target.dsn, "--detach"]) == 2
    printed = capsys.readouterr().err
    assert f"directory {no_directory}/londiste cannot be written" in printed
    assert "hint: set XDG_STATE_HOME" in printed and "nothing was changed" in printed
    assert source.value("select to_regnamespace('pgq')") is None
    assert run(cli, ["replicate", "service=of_nobody", target.dsn]) == 2
    assert "PGSERVICEFILE" in capsys.readouterr().err


def test_two_nodes_of_a_file_are_not_in_one_database(one_file: OneFile) -> None:
    roles = {"n1": "root", "n2": "leaf of n1"}
    one_file.write(roles, '\n[tables]\ninclude = ["*"]\n', pgq=False)
    first, second = (one_file.db[name].dsn for name in roles)
    # Another spelling of the same database.
    text = one_file.path.read_text()
    one_file.path.write_text(text.replace(second, f"{first} application_name=other"))
    for command in ("plan", "apply"):
        refused = one_file(command)
        assert refused.code == 3
        assert "nodes n1 and n2 are in the same database" in refused.err
        assert "correct db of [nodes.n2]" in refused.err
    assert one_file.db["n1"].value("select to_regnamespace('pgq')") is None


def test_a_dry_run_of_remove_shows_what_remove_does(
    nodes_of: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    for node in (root, leaf):
        node.db.execute("comment on schema londiste is 'made by londiste replicate: q'")
    call = ["replicate", root.dsn, leaf.dsn, "--queue", "q", "--remove"]
    capsys.readouterr()
    assert run(cli, [*call, "--dry-run"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert run(cli, call) == 0
    done = capsys.readouterr().err.splitlines()
    assert [line.partition(" ")[2].strip() for line in shown] == done[:-1]
    assert done[-1] == "removed; the databases are independent" and len(shown) == 5


def test_a_removal_that_keeps_the_sql_for_another_queue_is_complete(
    nodes_of: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    for node in (root, leaf):
        node.db.execute("comment on schema londiste is 'made by londiste replicate: q'")
    root.db.execute("select pgq.create_queue('other')")
    call = ["replicate", root.dsn, leaf.dsn, "--queue", "q"]
    assert run(cli, [*call, "--remove"]) == 0
    capsys.readouterr()
    assert run(cli, [*call, "--status"]) == 0
    kept, start = capsys.readouterr().err.splitlines()
    assert kept == f"{root.db.name}: the SQL is kept: queue other is in this database"
    assert start.startswith("these databases are not replicated yet; start: ")


def test_the_status_of_an_interrupted_removal_names_the_command_that_finishes_it(
    nodes_of: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    root = nodes_of.root()
    leaf, other = nodes_of.below(root, "leaf"), nodes_of.below(root, "other")
    for node in (root, leaf, other):
        node.db.execute("comment on schema londiste is 'made by londiste replicate: q'")
    call = ["replicate", root.dsn, leaf.dsn, "--also", other.dsn, "--queue", "q"]
    replication = identify(ReplicateSettings(queue_name="q"), root.dsn, [leaf.dsn, other.dsn])
    with replication.sites() as sites:
        steps = removal.targets(sites, [replication], drop_tables=False, warn=print)
        steps += removal._drop_root(sites, replication)
        for number, step in enumerate(steps):
            plan.execute([step], sites)
            capsys.readouterr()
            assert run(cli, [*call, "--status"]) == 3, number
            printed = capsys.readouterr()
            assert "a removal or set-up of queue q is unfinished: " in printed.err
            assert "hint: finish the removal: londiste replicate" in printed.err
            assert "--remove" in printed.err and "not replicated yet" not in printed.err
    assert run(cli, [*call, "--remove"]) == 0
    capsys.readouterr()
    assert run(cli, [*call, "--status"]) == 0
    assert "not replicated yet" in capsys.readouterr().err


def test_remove_waits_for_no_other_command(
    nodes_of: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    call = ["replicate", root.dsn, leaf.dsn, "--queue", "q", "--remove"]
    for busy, name in ((root, "root"), (leaf, "leaf")):
        with Connections(name="other") as other:
            other.alone(busy.dsn, name, "q")
            assert run(cli, [*call, "--dry-run"]) == 0
            capsys.readouterr()
            with refused_at_once():
                assert run(cli, call) == 3
        refused = f"error: node {name}: another command is changing the cascade of queue q"
        assert capsys.readouterr().err.startswith(refused)
    assert leaf.db.value("select count(*) from pgq_node.node_info") == 1
    assert run(cli, call) == 0


def test_a_dry_run_of_remove_keeps_a_root_with_another_subscriber(
    nodes_of: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    root = nodes_of.root()
    leaf, other = nodes_of.below(root, "leaf"), nodes_of.below(root, "other")
    for node in (root, leaf, other):
        node.db.execute("comment on schema londiste is 'made by londiste replicate: q'")
    capsys.readouterr()
    call = ["replicate", root.dsn, leaf.dsn, "--queue", "q", "--remove", "--dry-run"]
    assert run(cli, call) == 0
    shown = capsys.readouterr().out
    assert "root: drop the node" not in shown and "root: remove the SQL" not in shown
    assert "leaf: remove the SQL" in shown


def test_a_dry_run_signals_no_process(
    new_database: Callable[..., Database], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = (new_database(pgq=False).dsn for _ in range(2))
    pid = tmp_path / "pid"
    told: list[int] = []
    before = {
        number: signal.signal(number, lambda got, _: told.append(got))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    settings = ["--set", f"pidfile={pid}"]
    replicate = [*settings, "replicate", source, target, "--dry-run"]
    migrate = [*settings, "migrate", "start", "--from", source, "--to", target, "--dry-run"]
    stop = f"1. stop process {os.getpid()}\n"
    try:
        with PidFile(pid):
            for call, said in (
                ([*replicate, "--stop"], stop),
                ([*replicate, "--remove"], stop),
                ([*migrate, "--stop"], stop),
                ([*migrate, "--kill"], stop),
                ([*migrate, "--reload"], f"1. send SIGHUP to process {os.getpid()}\n"),
            ):
                capsys.readouterr()
                assert (run(cli, call), told) == (0, [])
                assert capsys.readouterr().out == said
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    capsys.readouterr()
    for words in (replicate, replicate[:-1]):
        # A hint may begin with it: whether a process runs there, only its host knows.
        assert run(cli, [*words, "--stop"]) == 0
        said = "".join(capsys.readouterr())
        assert "no process replicates these databases in the background" in said
        assert f"pid file {pid}" in said and "--detach" in said
    assert run(cli, [*replicate, "--remove"]) == 0
    assert capsys.readouterr().out == "nothing to do\n"


def test_a_missing_collation_is_named_before_anything_is_done(
    new_database: Callable[..., Database], capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = new_database(pgq=False), new_database(pgq=False)
    source.execute(
        "create schema lib; create collation lib.plain (provider = libc, locale = 'C');"
        " create table lib.words (id int primary key, w text) partition by range (id);"
        " create table lib.rest partition of lib.words default;"
        " create index on lib.rest (w collate lib.plain)"
    )
    call = ["replicate", source.dsn, target.dsn, "--dry-run"]
    assert run(cli, call) == 3
    printed = capsys.readouterr().err
    assert "collation lib.plain does not exist in the target database" in printed
    hint = printed.partition("hint: in the target database: ")[2]
    assert hint.startswith('create schema if not exists "lib"')
    target.execute(hint)
    assert run(cli, call) == 0
