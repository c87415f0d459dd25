"""Servers that tests can use in place of embedded ones: containers, or one that runs already."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Mapping
from typing import Any, Literal

import psycopg
import pytest
from psycopg import conninfo, sql

_SIGNALS = {"smart": "SIGTERM", "fast": "SIGINT", "immediate": "SIGQUIT"}


class ExternalCluster:
    """A server somebody else runs; needs a superuser's connection string."""

    template: str | None

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.template = None
        with psycopg.connect(dsn) as conn:
            self.version = conn.info.server_version // 10000

    def dsn(self, dbname: str = "postgres") -> str:
        return conninfo.make_conninfo(self._dsn, dbname=dbname)

    def create_database(self, name: str, template: str | None = None) -> None:
        statement = sql.SQL("create database {}").format(sql.Identifier(name))
        if template is not None:
            statement += sql.SQL(" template {}").format(sql.Identifier(template))
        self._administer(statement)

    def drop_database(self, name: str) -> None:
        self._administer(
            sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
        )

    def program(self, name: str) -> Any:
        """A client program of an embedded installation: it talks to every server."""
        from londiste.embedded.binaries import find_binaries

        return find_binaries().program(name)

    def environment(self) -> dict[str, str]:
        return {"LC_ALL": "C", "TZ": "UTC"}

    def running(self) -> bool:
        return True

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        pytest.skip("the server of LONDISTE_TEST_DSN cannot be stopped")

    up = restart = stop

    def _administer(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.dsn(), autocommit=True) as conn:
            conn.execute(statement)


class DockerCluster(ExternalCluster):
    """A container of the official image; started by testcontainers, which removes it."""

    def __init__(self, container: Any, dsn: str) -> None:
        self._container = container
        self._dsn = dsn
        self.template = None
        self._wait_ready()
        super().__init__(dsn)

    @classmethod
    def start(cls, version: int, settings: Mapping[str, str]) -> DockerCluster:
        """Skips the test with a reason when Docker does not answer."""
        from testcontainers.core.container import DockerContainer

        require_docker()
        password = secrets.token_hex(16)
        # The port is chosen here, because one that Docker chooses changes with every restart.
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        options = " ".join(f"-c {key}={value}" for key, value in settings.items())
        container = (
            DockerContainer(f"postgres:{version}")
            .with_env("POSTGRES_PASSWORD", password)
            .with_bind_ports(5432, port)
            .with_command(f"postgres {options}")
        )
        container.start()
        try:
            dsn = conninfo.make_conninfo(
                host=container.get_container_host_ip(),
                port=port,
                user="postgres",
                password=password,
                dbname="postgres",
            )
            return cls(container, dsn)
        except BaseException:
            container.stop()
            raise

    def __enter__(self) -> DockerCluster:
        return self

    def __exit__(self, *exc: object) -> None:
        self._container.stop()

    def running(self) -> bool:
        wrapped = self._container.get_wrapped_container()
        wrapped.reload()
        return bool(wrapped.status == "running")

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        if self.running():
            wrapped = self._container.get_wrapped_container()
            wrapped.kill(_SIGNALS[mode])
            wrapped.wait(timeout=60)

    def up(self) -> None:
        if not self.running():
            self._container.get_wrapped_container().start()
        self._wait_ready()

    def restart(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        self.stop(mode)
        self.up()

    def _wait_ready(self, seconds: float = 90.0) -> None:
        """Answers over TCP: the image's first, private server during set-up does not."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                with psycopg.connect(self._dsn, connect_timeout=5):
                    return
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


def require_docker() -> None:
    """Skips the calling test, saying why, when no Docker engine answers."""
    import docker

    try:
        docker.from_env(timeout=10).ping()
    except Exception as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        pytest.skip(f"LONDISTE_TEST_SERVERS=docker, and Docker does not answer: {first}")
