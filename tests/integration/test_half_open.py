"""A network that keeps a connection and lets nothing through: a command ends, and says why."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from londiste.cascade.plan import Sites
from londiste.db import call
from londiste.errors import NodeUnreachable
from tests.fix_cluster import Database


class Proxy:
    """Stands between libpq and a server's socket; after ``cut`` it swallows everything."""

    def __init__(self, directory: Path, database: Database) -> None:
        parts = psycopg.conninfo.conninfo_to_dict(database.dsn)
        self._server = f"{parts['host']}/.s.PGSQL.{parts['port']}"
        self.dsn = psycopg.conninfo.make_conninfo(database.dsn, host=str(directory), port=5432)
        self._cut = threading.Event()
        self._open: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(directory / ".s.PGSQL.5432"))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._cut.set()

    def close(self) -> None:
        for one in [self._listener, *self._open]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                self._open += [client, server]
                for here, there in ((client, server), (server, client)):
                    threading.Thread(target=self._carry, args=(here, there), daemon=True).start()

    def _carry(self, here: socket.socket, there: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := here.recv(65536):
                if not self._cut.is_set():
                    there.sendall(data)


@pytest.fixture
def proxy(tmp_path: Path, pgq_db: Database) -> Iterator[Proxy]:
    if "/" not in (psycopg.conninfo.conninfo_to_dict(pgq_db.dsn).get("host") or ""):
        pytest.skip("the server has no socket in the file system")
    made = Proxy(tmp_path, pgq_db)
    yield made
    made.close()


def test_a_server_that_is_not_heard_of_any_more_is_unreachable(proxy: Proxy) -> None:
    with Sites(name="test", answer_seconds=1.0) as sites:
        conn = sites.at(proxy.dsn)
        assert call.value(conn, "pgq.version")
        proxy.cut()
        began = time.monotonic()
        with pytest.raises(NodeUnreachable, match="not answered for 1 s"):
            call.value(conn, "pgq.version")
        assert time.monotonic() - began < 20
        assert conn.closed
