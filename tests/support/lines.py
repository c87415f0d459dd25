"""A line between a program and a server that can fall silent: nothing comes through, nothing ends.

So it is behind a firewall that has forgotten a connection, or a proxy whose other side is gone: the
program's own network says that all is well.  When the line is mended, what was on its way arrives:
also what was sent by somebody who has given up meanwhile.
"""

from __future__ import annotations

import contextlib
import socket
import threading

from psycopg import conninfo


class Line:
    """Listens on a port of its own and carries what comes to the server of a connection string."""

    def __init__(self, target: str) -> None:
        self._target = conninfo.conninfo_to_dict(target)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._gates = [_Gate()]
        self._closed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        host, port = self._listener.getsockname()
        self.dsn = conninfo.make_conninfo("", **{**self._target, "host": host, "port": port})
        threading.Thread(target=self._accept, name="line", daemon=True).start()

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def cut(self) -> None:
        """From now on nothing comes through; new connections are accepted, and silent."""
        self._gates[-1].close()

    def deafen(self) -> None:
        """Only what the server says does not come through."""
        self._gates[-1].answers.clear()

    def stall(self, *, deaf: bool = False) -> None:
        """The connections that there are fall silent, or are deafened; new ones are sound."""
        if deaf:
            self.deafen()
        else:
            self.cut()
        self._gates.append(_Gate())

    def slow(self, pause: float) -> None:
        """The connections that there are take so many seconds for 4 kB; new ones are fast."""
        self._gates[-1].pause = pause
        self._gates.append(_Gate())

    def mend(self) -> None:
        """What was held goes on."""
        for gate in self._gates:
            gate.open()

    def close(self) -> None:
        """Ends the line and every connection on it."""
        self._closed.set()
        self.mend()
        with self._lock:
            ends, self._open = [self._listener, *self._open], set()
        for one in ends:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                gate = self._gates[-1]
                threading.Thread(target=self._connect, args=(client, gate), daemon=True).start()

    def _connect(self, client: socket.socket, gate: _Gate) -> None:
        with self._lock:
            self._open.add(client)
        gate.questions.wait()
        try:
            server = self._server()
        except OSError:
            self._end(client)
            return
        with self._lock:
            self._open.add(server)
        for here, there, way in (
            (client, server, gate.questions),
            (server, client, gate.answers),
        ):
            threading.Thread(target=self._carry, args=(here, there, way, gate), daemon=True).start()

    def _server(self) -> socket.socket:
        host, port = str(self._target["host"]), int(self._target.get("port") or 5432)
        if host.startswith("/"):
            server = socket.socket(socket.AF_UNIX)
            server.connect(f"{host}/.s.PGSQL.{port}")
            return server
        return socket.create_connection((host, port))

    def _carry(
        self, here: socket.socket, there: socket.socket, way: threading.Event, gate: _Gate
    ) -> None:
        with contextlib.suppress(OSError):
            while data := here.recv(4096 if gate.pause else 65536):
                way.wait()
                self._closed.wait(gate.pause)
                there.sendall(data)
        # That somebody has gone is no more heard of than anything else.
        way.wait()
        self._end(there)
        self._end(here)

    def _end(self, one: socket.socket) -> None:
        with self._lock:
            self._open.discard(one)
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


class _Gate:
    """What connections pass, both ways."""

    pause = 0.0

    def __init__(self) -> None:
        self.questions, self.answers = threading.Event(), threading.Event()
        self.open()

    def open(self) -> None:
        self.questions.set()
        self.answers.set()

    def close(self) -> None:
        self.questions.clear()
        self.answers.clear()
