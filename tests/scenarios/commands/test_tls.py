"""Connections to a real TLS server: good, expired and wrong certificates, and none at all."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from londiste.cascade.model import NodeType
from londiste.db import connection, tls
from londiste.embedded.homes import throwaway_home
from londiste.embedded.postgres import Cluster
from londiste.errors import NotSecured
from londiste.monitor import exposure
from tests.fixtures.cluster import Database, memory_directory
from tests.fixtures.line import Line
from tests.support.servers.authority import Authority
from tests.support.servers.pooler import Pooler

NAME = "db.test"
Make = Callable[..., Pooler]


@pytest.fixture
def authority(open_directory: Path) -> Authority:
    if not Authority.program():
        pytest.skip("no openssl here: apt-get install openssl")
    # The server runs as another account than root.
    return Authority(open_directory, "ca")


def named(server: Pooler, database: Database, name: str = NAME) -> str:
    """A connection string that calls the server by a name."""
    return f"{server.dsn(database)} host={name} hostaddr=127.0.0.1"


def test_a_server_that_proves_its_name_is_taken(
    pgq_db: Database, pooler: Make, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = named(pooler("session", pgq_db, **authority.server(NAME)), pgq_db)
    with connection.session(f"{dsn} sslrootcert={authority.certificate}", autocommit=True) as conn:
        assert conn.pgconn.ssl_in_use
    # As libpq finds it: in the environment.
    monkeypatch.setenv("PGSSLROOTCERT", str(authority.certificate))
    with connection.session(dsn, autocommit=True) as conn:
        assert conn.pgconn.ssl_in_use


@pytest.mark.parametrize(
    ("name", "days", "words"),
    [(NAME, -1, "certificate verify failed"), ("other.test", 2, "does not match host name")],
)
def test_an_expired_certificate_and_one_of_another_server_are_refused(
    pgq_db: Database, pooler: Make, authority: Authority, name: str, days: int, words: str
) -> None:
    dsn = named(pooler("session", pgq_db, **authority.server(name, days=days)), pgq_db)
    with pytest.raises(NotSecured, match=words) as caught:
        connection.connect(f"{dsn} sslrootcert={authority.certificate}")
    assert "sslmode=" in caught.value.hint
    # What is written counts; libpq itself looks at no more than the chain then.
    connection.connect(f"{dsn} sslmode=require").close()


def test_a_certificate_of_another_authority_is_refused(
    pgq_db: Database, pooler: Make, authority: Authority
) -> None:
    dsn = named(pooler("session", pgq_db, **authority.server(NAME)), pgq_db)
    other = Authority(authority.directory, "other")
    unknown = f"{dsn} sslrootcert={other.certificate}"
    with pytest.raises(NotSecured, match="certificate verify failed") as caught:
        connection.connect(unknown)
    assert tls.UNVERIFIED in (caught.value.hint or "")
    # The last of two values counts.
    with connection.connect(f"{unknown} {tls.UNVERIFIED}") as conn:
        assert conn.pgconn.ssl_in_use


def test_a_server_without_tls_is_refused_where_there_is_a_root_certificate(
    pgq_db: Database, pooler: Make, authority: Authority
) -> None:
    dsn = named(pooler("session", pgq_db), pgq_db)
    with pytest.raises(NotSecured, match="does not support SSL"):
        connection.connect(f"{dsn} sslrootcert={authority.certificate}")
    # A socket needs none.
    connection.connect(f"{pgq_db.dsn} sslrootcert={authority.certificate}").close()


def test_a_worker_says_what_is_wrong_with_the_certificate(
    line: Line, pooler: Make, authority: Authority
) -> None:
    root = line.node("root", NodeType.ROOT)
    front = pooler("session", root.database, **authority.server(NAME, days=-1))
    dsn = named(front, root.database)
    line.configure(root, db=f"{dsn} sslrootcert={authority.certificate}")
    done = line.run(root, "worker", "--once")
    assert done.code == 2, str(done)
    assert "certificate verify failed" in done.err and "hint: " in done.err
    assert "Traceback" not in done.err


def own_address() -> str:
    """An address of this machine that is not its loopback; skips without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no network address")
        return str(probe.getsockname()[0])


class Open(Cluster):
    """A server that the network reaches, without TLS."""

    def _write_settings(self) -> None:
        super()._write_settings()
        settings = self.data / "postgresql.auto.conf"
        settings.write_text(settings.read_text().replace("'127.0.0.1'", "'*'"))
        (self.data / "pg_hba.conf").write_text("local all all trust\nhost all all all trust\n")

    def dsn(self, dbname: str = "postgres") -> str:
        """Through the socket, and without a password."""
        return f"host={self._socket_dir} port={self.port} dbname={dbname} user=postgres"


@pytest.fixture
def open_server() -> Iterator[Open]:
    home = throwaway_home(memory_directory())
    server = Open.start(home, "open", port=True)
    assert isinstance(server, Open)
    yield server
    server.remove()


def test_a_connection_that_others_can_read_is_told_in_log_status_and_check(
    open_server: Open, line: Line
) -> None:
    root = line.node("root", NodeType.ROOT, on=open_server)
    address = own_address()
    exposed = f"host={address} port={open_server.port} dbname={root.database.name} user=postgres"
    line.configure(root, db=exposed)
    shown = line.run(root, "status")
    assert shown.code == 0, str(shown)
    # In the log once, however many sessions there are.
    assert shown.err.count("is not encrypted and not local") == 1
    assert "docs/howto/tls.md" in shown.err
    assert f"NEITHER ENCRYPTED NOR LOCAL: londiste status from {address}" in shown.out
    checked = line.run(root, "check")
    assert f"sessions from {address} are neither encrypted nor local" in checked.out
    # A session that others have open is seen by who looks from a socket.
    line.configure(root, db=root.database.dsn)
    with connection.session(exposed, name="londiste worker far", autocommit=True):
        shown = line.run(root, "status")
        assert f"londiste worker far from {address}" in shown.out
    shown = line.run(root, "status")
    assert "NEITHER" not in shown.out + shown.err


def test_what_check_says() -> None:
    [finding] = exposure.findings((exposure.Exposed("10.0.0.7", "londiste worker x"),), "q")
    assert "10.0.0.7" in finding.what and "sslmode=verify-full" in finding.do


@pytest.mark.parametrize(
    ("given", "environment", "mode"),
    [
        ({"host": "db"}, {"PGSSLROOTCERT": "/r"}, "verify-full"),
        ({"host": "db", "sslrootcert": "/r"}, {}, "verify-full"),
        ({"host": "db", "sslrootcert": "/r", "sslmode": "require"}, {}, None),
        ({"host": "db"}, {"PGSSLROOTCERT": "/r", "PGSSLMODE": "prefer"}, None),
        ({"host": "db"}, {}, None),
        ({"host": "/run"}, {"PGSSLROOTCERT": "/r"}, None),
        ({"host": "/run,/var/run"}, {"PGSSLROOTCERT": "/r"}, None),
        ({}, {"PGSSLROOTCERT": "/r"}, None),
        ({}, {"PGSSLROOTCERT": "/r", "PGHOST": "db"}, "verify-full"),
        ({"host": "/run,db"}, {"PGSSLROOTCERT": "/r"}, "verify-full"),
        ({"hostaddr": "10.0.0.1"}, {"PGSSLROOTCERT": "/r"}, "verify-full"),
        ({"service": "shop"}, {"PGSSLROOTCERT": "/r"}, None),
        # libpq takes the host where an address of the list is empty.
        ({"host": "db,db", "hostaddr": ","}, {"PGSSLROOTCERT": "/r"}, "verify-full"),
        ({"host": "/run,db", "hostaddr": ","}, {"PGSSLROOTCERT": "/r"}, "verify-full"),
        ({"host": "/run,db"}, {"PGSSLROOTCERT": "/r", "PGHOSTADDR": ","}, "verify-full"),
        ({"host": "/run, "}, {"PGSSLROOTCERT": "/r"}, "verify-full"),
        ({"host": "/run", "hostaddr": "10.0.0.1"}, {"PGSSLROOTCERT": "/r"}, "verify-full"),
        ({"host": "/run", "hostaddr": ","}, {"PGSSLROOTCERT": "/r"}, "verify-full"),
        ({"host": "/run,@name,", "hostaddr": ",,"}, {"PGSSLROOTCERT": "/r"}, None),
        ({"hostaddr": ","}, {"PGSSLROOTCERT": "/r"}, None),
        # An empty parameter hides that of the environment.
        ({"host": "db"}, {"PGSSLROOTCERT": "/r", "PGHOSTADDR": "10.0.0.1"}, "verify-full"),
        ({"host": ""}, {"PGSSLROOTCERT": "/r", "PGHOST": "db"}, None),
    ],
)
def test_the_mode_by_what_is_given(
    given: dict[str, str], environment: dict[str, str], mode: str | None
) -> None:
    assert tls.default_mode(given, environment) == mode


def test_a_root_certificate_at_its_usual_place_counts(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert tls.default_mode({"host": "db"}, home) is None
    (tmp_path / ".postgresql").mkdir()
    (tmp_path / ".postgresql" / "root.crt").touch()
    assert tls.default_mode({"host": "db"}, home) == "verify-full"


@pytest.mark.parametrize(
    ("address", "encrypted", "told"),
    [
        ("10.0.0.1", False, True),
        ("10.0.0.1", True, False),
        ("127.0.0.1", False, False),
        ("::1", False, False),
        ("fe80::1%eth0", False, True),
        ("", False, False),
        (None, False, False),
    ],
)
def test_who_can_read_a_connection(address: str | None, encrypted: bool, told: bool) -> None:
    assert tls.exposed(address, encrypted=encrypted) is told
