"""Installation for a command: by whom, its mark, and its removal."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from londiste.cascade.commands import install_sql
from londiste.cascade.commands.endpoint import endpoint
from londiste.cascade.commands.install_sql import Install, Uninstall, administers, installed, marked
from londiste.db.connection import Connection
from londiste.embedded.postgres import Cluster
from londiste.errors import LockTimeout
from londiste.install import apply, locks
from londiste.orchestration.connections import Connections
from tests.fixtures.cluster import Database


def test_who_creates_the_group_roles_administers_the_queues(
    new_cluster: Callable[..., Cluster],
) -> None:
    server = new_cluster("fresh")
    server.create_database("shop")
    database = Database(server, "shop")
    database.execute("create role plain login createrole; alter database shop owner to plain")
    side = endpoint("shop", f"{database.dsn} user=plain", "replicate_shop")
    with Connections(name="test") as sites:
        conn = sites.at(side.dsn)
        assert not installed(conn)
        step = Install(side, "made by a test")
        assert not step.done(sites)
        step.run(sites)
        assert step.done(sites) and administers(conn)
        assert marked(conn, "made by a test") and not marked(conn, "made by another")
        # Other schemas stay.
        assert Uninstall(side, "made by another").done(sites)
        # So do those with a queue that another command has created.
        conn.execute("select pgq.create_queue('orders')")
        assert Uninstall(side, "made by a test").done(sites)
        conn.execute("select pgq.drop_queue('orders')")
        assert not Uninstall(side, "made by a test").done(sites)
        Uninstall(side, "made by a test").run(sites)
        assert not installed(conn)


def test_a_killed_installation_leaves_nothing_without_its_mark(
    new_database: Callable[..., Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    for components in (["pgq"], ["pgq", "pgq_node", "pgq_ext", "pgq_coop", "londiste"]):
        database = new_database(pgq=False)
        side = endpoint("shop", database.dsn, "replicate_shop")

        def killed(conn: Connection, names: list[str] = components) -> None:
            apply.install(conn, names)
            raise KeyboardInterrupt

        with Connections(name="test") as sites:
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(
                    install_sql, "apply", SimpleNamespace(install=killed, plan_for=apply.plan_for)
                )
                Install(side, "made by a test").run(sites)
            conn = sites.at(side.dsn)
            assert not installed(conn)
            # The same command continues.
            Install(side, "made by a test").run(sites)
            assert marked(conn, "made by a test") and Install(side, "").done(sites)
            Uninstall(side, "made by a test").run(sites)
            assert not installed(conn)


def test_who_reads_a_table_of_the_queue_is_named(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "PATIENCE", 1.5)
    side = endpoint("shop", database.dsn, "replicate_shop")
    with Connections(name="test", answer_seconds=0.5) as sites, database.connect() as reader:
        Install(side, "made by a test").run(sites)
        reader.execute("begin; select from pgq.queue")
        with pytest.raises(LockTimeout, match=r"table pgq\.queue stays locked"):
            Uninstall(side, "made by a test").run(sites)


def test_a_user_of_existing_roles_needs_an_administrator(
    database: Database, pgq_db: Database
) -> None:
    database.execute(
        "drop role if exists test_no_admin; create role test_no_admin login;"
        f' grant all on database "{database.name}" to test_no_admin'
    )
    side = endpoint("shop", f"{database.dsn} user=test_no_admin", "replicate_shop")
    with Connections(name="test") as sites:
        Install(side, "made by a test").run(sites)
        assert not administers(sites.at(side.dsn))
        Uninstall(side, "made by a test").run(sites)
    database.execute("drop owned by test_no_admin; drop role test_no_admin")
