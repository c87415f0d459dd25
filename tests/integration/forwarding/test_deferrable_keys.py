"""Deferrable constraints of subscribers, which PostgreSQL does not check for replicated rows."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from londiste.cli import cli
from londiste.cli.errors import run as run_command
from londiste.monitor.nodes.table_facts import TableFacts, unchecked_keys
from londiste.replication.commands.merged_tables import TableKey
from tests.fixtures.cascade import CommandLine, Nodes
from tests.fixtures.cluster import Database
from tests.support.scenarios.combined_cascade import PARTS, Combined
from tests.support.suite.slow import first

KEY = "alter table t drop constraint t_pkey, add primary key (part, id) deferrable"
UNIQUE = "alter table t add constraint u unique (v) deferrable initially deferred"
EXCLUSION = "alter table t add constraint x exclude using btree (v with =) deferrable"


@pytest.fixture
def combined(tmp_path: Path, new_database: Callable[..., Database]) -> Iterator[Combined]:
    made = Combined(tmp_path, new_database, rows=0)
    made.merge("first")
    yield made
    made.close()


@pytest.mark.parametrize(("ddl", "name"), first([(KEY, "t_pkey"), (UNIQUE, "u"), (EXCLUSION, "x")]))
def test_a_merged_table_has_no_deferrable_constraint(
    combined: Combined, capsys: pytest.CaptureFixture[str], ddl: str, name: str
) -> None:
    first = combined.at["first"]
    for part in PARTS:
        combined.here(f"{part}@{part}", "add-table", "t")
        first.execute("select londiste.global_add_table(%s, 'public.t')", part)
    first.execute(ddl)
    leaf = ["-c", str(combined.config("one@first"))]
    for options in ((), ("--expect-sync",)):
        capsys.readouterr()
        assert run_command(cli, [*leaf, "add-table", "t", "--merge-all", *options]) == 3
        said = capsys.readouterr().err
        assert f"table public.t: constraint {name} is deferrable" in said
        assert first.value("select count(*) from londiste.table_info where local") == 0
    first.execute(said.partition("hint: ")[2].strip())
    combined.here("one@first", "add-table", "t", "--merge-all", "--expect-sync")
    first.execute(f"alter table t drop constraint {name}")
    first.execute(ddl.replace(f"drop constraint {name},", ""))

    def found() -> list[dict[str, str]]:
        capsys.readouterr()
        run_command(cli, [*leaf, "check", "--json"])
        findings = json.loads(capsys.readouterr().out)["findings"]
        return [one for one in findings if one["kind"] == "key-deferrable"]

    [one] = found()
    assert one["severity"] == "critical" and f"constraint {name} is" in one["what"]
    first.execute(one["do"].partition("database of first: ")[2])
    assert found() == []


def test_a_constraint_that_the_provider_lacks_is_found(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    for node, words in ((root, ()), (leaf, ("--expect-sync",))):
        node.db.execute("create table t (id int primary key deferrable, v int, w int)")
        assert londiste(node.db, "add-table", "t", *words).code == 0

    def found() -> list[str]:
        findings = londiste(leaf.db, "check", "--all-nodes", "--json").json["findings"]
        return [one["do"] for one in findings if one["kind"] == "key-deferrable"]

    assert found() == []
    leaf.db.execute("alter table t add constraint u unique (v, w) deferrable initially deferred")
    [do] = found()
    root.db.execute("alter table t add unique (w)")
    assert found() == []
    root.db.execute("alter table t drop constraint t_w_key")
    leaf.db.execute(do.partition("database of leaf: ")[2])
    assert found() == []
    # A partition cannot drop what it inherits.
    leaf.db.execute(
        "alter table t drop constraint u;"
        "create table p (like t, constraint pu unique (v, w) deferrable) partition by range (v);"
        "alter table p attach partition t default"
    )
    [do] = found()
    leaf.db.execute(do.partition("database of leaf: ")[2])
    assert found() == []


@pytest.mark.slow
def test_the_key_of_the_root_is_changed_where_keys_refer_to_that_of_another_node(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    root.db.execute("create table t (id int primary key, v int)")
    leaf.db.execute(
        "create table t (id int primary key, v int); create table u (t int references t)"
    )
    for node, words in ((root, ()), (leaf, ("--expect-sync",))):
        assert londiste(node.db, "add-table", "t", *words).code == 0
    root.db.execute(
        "alter table t drop constraint t_pkey, add primary key (id) include (v) deferrable"
    )
    found = londiste(root.db, "doctor", root.db.dsn, leaf.db.dsn, "--json").json["findings"]
    [do] = [one["do"] for one in found if one["id"] == "deferrable"]
    words = shlex.split(do.partition("settings of the root: londiste ")[2])
    done = londiste(root.db, *words)
    assert done.code == 0, done
    root.tick()
    done = londiste(leaf.db, "worker", "--once", job=leaf.worker)
    assert done.code == 0, done
    key = "select pg_get_constraintdef(oid) from pg_constraint where conname = 't_pkey'"
    assert root.db.value(key) == "PRIMARY KEY (id) INCLUDE (v)"
    assert leaf.db.value(key) == "PRIMARY KEY (id)"


def test_what_a_key_of_the_provider_implies() -> None:
    def key(columns: str, *, deferrable: bool = True, exclusion: bool = False) -> TableKey:
        return TableKey("k", exclusion, deferrable, frozenset(columns))

    def unchecked(ours: TableKey, *theirs: TableKey) -> bool:
        facts = [TableFacts(True, keys=keys) for keys in ((ours,), theirs)]
        return bool(unchecked_keys(*facts))

    assert unchecked(key("ab"))
    assert not unchecked(key("ab", deferrable=False))
    assert not unchecked(key("ab"), key("b"))
    assert unchecked(key("a"), key("ab"))
    assert unchecked(key("a", exclusion=True), key("a"))
    assert unchecked(key("a"), key("a", exclusion=True))
    assert not unchecked(key("a", exclusion=True), key("a", exclusion=True))
