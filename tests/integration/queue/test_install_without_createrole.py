"""A user without CREATEROLE installs all SQL after an administrator created the roles."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from londiste.db.connection import connect
from londiste.embedded.postgres import Cluster
from londiste.errors import InstallError
from londiste.install.apply import install
from londiste.pgq import batches, producer, queues
from tests.support.queue_steps import rotate


def test_missing_roles_are_named_and_with_them_an_ordinary_user_installs(
    new_cluster: Callable[..., Cluster],
) -> None:
    cluster = new_cluster()
    cluster.create_database("app")
    with connect(cluster.dsn("app"), autocommit=True) as admin:
        admin.execute("create role plain login")
        admin.execute("alter database app owner to plain")
        with connect(cluster.dsn("app"), autocommit=True) as conn:
            conn.execute("set session authorization plain")
            with pytest.raises(InstallError) as caught:
                install(conn)
            assert caught.value.hint.removeprefix("as an administrator: ").split("; ") == [
                "create role pgq_reader nologin",
                "create role pgq_writer nologin",
                "create role pgq_admin nologin",
                "grant pgq_reader to pgq_admin",
                "grant pgq_writer to pgq_admin",
                "create role londiste_reader nologin in role pgq_reader",
                "create role londiste_writer nologin in role pgq_admin",
                "grant londiste_writer to plain",
            ]
            with pytest.raises(InstallError) as caught:
                install(conn, ["pgq"])
            assert "the roles of the queue are missing" in caught.value.message
            commands = caught.value.hint.removeprefix("as an administrator: ")
            assert commands.split("; ") == [
                "create role pgq_reader nologin",
                "create role pgq_writer nologin",
                "create role pgq_admin nologin",
                "grant pgq_reader to pgq_admin",
                "grant pgq_writer to pgq_admin",
            ]
            assert admin.execute("select to_regnamespace('pgq')").fetchone() == (None,)
            admin.execute(commands.encode())
            assert install(conn, ["pgq"])
            assert install(conn, ["pgq"]) == []
            queues.create_queue(conn, "q")
            batches.register_consumer(conn, "q", "c")
            producer.insert_event(conn, "q", "t", "d")
            producer.insert_events(conn, "q", [("t", "e")])
            queues.force_tick(conn, "q")
            assert queues.ticker(conn) == 1
            batch = batches.next_batch(conn, "q", "c")
            assert batch is not None
            assert [e.data for chunk in batches.events(conn, batch) for e in chunk] == ["d", "e"]
            batches.finish_batch(conn, batch.id)
            queues.set_queue_config(conn, "q", "rotation_period", "0")
            rotate(conn, "q")
            assert queues.get_queue_info(conn, "q")[0].queue_cur_table == 1
            queues.drop_queue(conn, "q", force=True)

            with pytest.raises(InstallError) as caught:
                install(conn)
            assert "the roles of replication are missing" in caught.value.message
            commands = caught.value.hint.removeprefix("as an administrator: ")
            assert commands.split("; ") == [
                "create role londiste_reader nologin in role pgq_reader",
                "create role londiste_writer nologin in role pgq_admin",
                "grant londiste_writer to plain",
            ]
            admin.execute(commands.encode())
            assert install(conn)
            assert install(conn) == []
