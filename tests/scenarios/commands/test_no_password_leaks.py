"""A password is in no output, no log, no argument list and no table."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo, sql

from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import Database
from tests.support.scenarios import oracles, writers
from tests.support.scenarios.harness import Cascade, Node, quoted
from tests.support.scenarios.processes import command_line
from tests.support.scenarios.writers import TokenWriter


class Listener:
    """Keeps every text that comes out of the program."""

    def __init__(self, cascade: Cascade, secret: str) -> None:
        self.cascade = cascade
        self.secret = secret
        self.texts: list[str] = []

    def run(self, node: Node | Path | None, *args: str) -> str:
        """Runs a command, loudly; whether it succeeds does not matter here."""
        config = node.config if isinstance(node, Node) else node
        argv = self.cascade.command(config, *args)
        argv.insert(3, "-vv")
        done = self.cascade.processes.run(argv)
        self.texts += [done.out, done.err]
        return done.out

    def assert_nothing_leaked(self, *databases: Database) -> None:
        self.texts.append(self.cascade.processes.everything_said())
        for database in databases:
            self.texts += all_texts(database)
        for text in self.texts:
            for form in forms(self.secret):
                at = text.find(form)
                around = text[max(0, at - 200) : at].splitlines()[-1:]
                assert at < 0, f"the password leaks after: {around}"


def forms(secret: str) -> set[str]:
    """The password as it is, and as different quotings write it; its random core is in all."""
    core = re.search(r"[0-9a-f]{24}", secret)
    assert core is not None
    return {secret, core.group()}


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_password_never_leaks(
    cascade: Cascade, new_cluster: Callable[..., Cluster], tmp_path: Path, every: bool
) -> None:
    """By default texts of the root and documents of the leaf; in the slow run both of both."""
    secret = f"p'w\\ {secrets.token_hex(12)}=\"@:/%25"
    server = new_cluster("password", port=True)
    listener = Listener(cascade, secret)
    root, leaf = _secured(cascade, server, secret)
    without = {node.name: _without_password(node) for node in (root, leaf)}
    for node in (root, leaf):
        listener.run(node, "install")
    listener.run(root, "create-root", "root", without["root"])
    create = ("create-leaf", "leaf", without["leaf"], "--provider", without["root"])
    listener.run(leaf, *create, "--dry-run")
    listener.run(leaf, *create)
    cascade.start_ticker(root)
    worker = cascade.start_worker(leaf)
    with TokenWriter(root.database) as writer:
        for node in (root, leaf):
            listener.run(node, "add-table", "--all", "--insert-only", "--dry-run")
            listener.run(node, "add-table", "--all", "--insert-only")
        cascade.wait_sync(leaf)
        writer.wait(20)
        for pid in cascade.processes.living():
            listener.texts.append(command_line(pid))
        worker.kill()
        cascade.start_worker(leaf)
        writer.stop()
    cascade.wait_root(leaf)
    tables = (*writers.KEYED, *writers.KEYLESS)
    oracles.assert_same_rows(root.database, leaf.database, tables)
    assert json.loads(listener.run(leaf, "compare", "--json"))["equal"]
    for node in (root, leaf):
        for command in ("status", "members", "node-info", "tables", "missing", "compare"):
            if every or node is root:
                listener.run(node, command)
            if every or node is leaf:
                listener.run(node, command, "--json")
        listener.run(node, "uninstall", "--dry-run")
        listener.run(node, "no-such-command", node.database.dsn)
    # The connection breaks under the worker, which says so.
    leaf.database.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()"
        " and application_name like 'londiste%'"
    )
    root.database.execute("insert into scenario.token_a values (-1, 'x')")
    cascade.wait_root(leaf)
    # An event that cannot be applied: the worker, its log and the status talk about it.
    leaf.database.execute(
        "set session_replication_role = replica; delete from scenario.token_a where id = -1"
    )
    root.database.execute("delete from scenario.token_a where id = -1")
    cascade.wait(
        lambda: leaf.database.value(
            "select count(*) from pgq_node.local_state where cur_error <> ''"
        ),
        "the error in the node's state",
    )
    listener.run(leaf, "status")
    listener.run(leaf, "status", "--json")
    listener.assert_nothing_leaked(root.database, leaf.database)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_password_never_leaks_in_errors_about_connections(
    cascade: Cascade, new_cluster: Callable[..., Cluster], every: bool
) -> None:
    """By default each command and each wrong string; in the slow run each command for each."""
    secret = f"x'y\\ {secrets.token_hex(12)}=\"@:/%25"
    server = new_cluster("password", port=True)
    listener = Listener(cascade, secret)
    node = cascade.node("node", on=server)
    wrong = [
        conninfo.make_conninfo(node.database.dsn, password=secret),
        conninfo.make_conninfo(node.database.dsn, password=secret, dbname="nope"),
        conninfo.make_conninfo(host="127.0.0.1", port=1, password=secret, dbname="x"),
        conninfo.make_conninfo(host="no-such-host.invalid", password=secret, dbname="x"),
        f"postgresql://postgres:{secret}@127.0.0.1:{server.port}/x",
        f"host=127.0.0.1 port={server.port} password={secret} dbname=x",
        f"host=127.0.0.1 password='{secret} dbname=x",
    ]
    own = node.database.dsn

    def nonsense(dsn: str) -> None:
        cascade.write_settings(node, dsn, nonsense=quoted("x"))
        listener.run(node, "status")

    def beside(dsn: str, *args: str) -> None:
        """The settings are right, and an argument is wrong."""
        cascade.write_settings(node, own)
        listener.run(node, *args)

    uses: list[Callable[[str], object]] = [
        lambda dsn: listener.run(node, "worker", "--once"),
        lambda dsn: listener.run(node, "install", "--dry-run"),
        lambda dsn: listener.run(node, "status", "--no-such-option", dsn),
        lambda dsn: listener.run(None, "--set", f"db={dsn}", "status"),
        nonsense,
        lambda dsn: beside(dsn, "create-leaf", "leaf", dsn, "--provider", dsn),
        lambda dsn: beside(dsn, "create-root", "root", dsn, "--dry-run"),
    ]
    assert len(uses) == len(wrong)
    cascade.write_settings(node, own)
    listener.run(node, "install")
    for number, dsn in enumerate(wrong):
        cascade.write_settings(node, dsn)
        listener.run(node, "status")
        for use in uses if every else uses[number : number + 1]:
            cascade.write_settings(node, dsn)
            use(dsn)
    listener.assert_nothing_leaked(node.database)


def _secured(cascade: Cascade, server: Cluster, secret: str) -> tuple[Node, Node]:
    """A root and a leaf whose user has the password; it is in 0600 files of settings only."""
    nodes = []
    for name, schema in (("root", writers.SCHEMA + writers.DATA), ("leaf", writers.SCHEMA)):
        node = cascade.node(name, on=server, schema=schema)
        dsn = conninfo.make_conninfo(node.database.dsn, user="app", password=secret)
        host = conninfo.conninfo_to_dict(dsn)["host"]
        extra = conninfo.make_conninfo(host=host, password=secret)
        cascade.write_settings(node, dsn, remote_extra_connstr=quoted(extra))
        nodes.append(node)
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        conn.execute(
            sql.SQL("create role app superuser login password {}").format(sql.Literal(secret))
        )
    return nodes[0], nodes[1]


def _without_password(node: Node) -> str:
    parts = conninfo.conninfo_to_dict(node.database.dsn)
    parts.pop("password")
    parts["user"] = "app"
    return conninfo.make_conninfo("", **parts)


def all_texts(database: Database) -> list[str]:
    """Every row of every table of the database, ours and the user's, as text."""
    tables = database.execute(
        "select format('%I.%I', schemaname, tablename) from pg_tables"
        " where schemaname not in ('pg_catalog', 'information_schema')"
    )
    return [
        text
        for (table,) in tables
        for (text,) in database.execute(f"select t::text from {table} t")
    ]
