"""The databases of metrics are asked side by side."""

from __future__ import annotations

import socket
from threading import Thread

from londiste.metrics import collect


def test_a_silent_database_does_not_delay_the_others() -> None:
    found: list[collect.Databases] = []
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        dsns = [
            f"host=127.0.0.1 port={one.getsockname()[1]} dbname=x connect_timeout=120"
            for one in (silent, other)
        ]
        asking = Thread(target=lambda: found.append(collect.databases(dsns)), daemon=True)
        asking.start()
        other.settimeout(30)
        with silent.accept()[0], other.accept()[0]:
            assert found == []
    asking.join()
    assert [*found[0].facts.values()] == [None, None]
