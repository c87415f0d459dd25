"""The archive of a Java program's classes: made by the first run, and never in the way."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from londiste.embedded.class_archive import WRITABLE, ClassArchive, find_archive
from londiste.embedded.java import find
from londiste.engine.spark import launcher
from londiste.errors import LondisteError

pyspark = pytest.importorskip("pyspark")

HOME = Path(pyspark.__file__).parent
#: A program of Spark that prints a command and ends.
PROGRAM = ("org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit", "--version")


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the classes of that program, an empty cache, and a Java."""
    try:
        find()
    except LondisteError as missing:
        pytest.skip(str(missing))
    monkeypatch.setenv("LONDISTE_CACHE", str(tmp_path / "cache"))
    directory = tmp_path / "jars"
    directory.mkdir()
    for jar in (HOME / "jars").glob("*.jar"):
        (directory / jar.name).symlink_to(jar)
    return directory


def archive(jars: Path) -> ClassArchive:
    return find_archive(find(), "spark-1.0", [jars])


def run(jars: Path, found: ClassArchive) -> str:
    """Runs the program with its classes told; where the program's own and Java's come from."""
    # It ends before anybody could ask it for its archive.
    at_exit = f"-XX:ArchiveClassesAtExit={found.written}"
    options: Sequence[str] = [at_exit if option == WRITABLE else option for option in found.options]
    done = subprocess.run(
        [
            *(find().home / "bin" / "java", *options, "-Xlog:class+load:file=load.log"),
            *("-cp", jars / "*", *PROGRAM),
        ],
        env={**os.environ, "SPARK_HOME": str(HOME), "SPARK_SCALA_VERSION": "2.13"},
        cwd=jars.parent,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "SparkSubmit" in done.stdout
    assert "warning" not in done.stdout.lower()
    lines = (jars.parent / "load.log").read_text().splitlines()
    names = ("java.lang.Object", "org.apache.spark.launcher.Main")
    return ", ".join(
        "archive" if "shared objects file" in line else "file"
        for name in names
        for line in lines
        if f" {name} source:" in line
    )


def test_the_first_run_makes_the_archive_and_later_ones_use_it(jars: Path) -> None:
    made = archive(jars)
    assert run(jars, made) == "archive, file"
    # Another one that runs at the same time has a file of its own.
    assert archive(jars).written not in (None, made.written)
    made.keep()
    found = archive(jars)
    assert found.written is None
    assert f"spark-1.0-java-{find().number}-" in found.options[0]
    assert run(jars, found) == "archive, archive"


@pytest.fixture
def start(jars: Path, tmp_path: Path) -> Callable[[], Any]:
    """Starts a JVM of Spark, which writes where its classes come from; its gateway."""
    settings = {
        "spark.master": "local[1]",
        launcher.EXTRA_OPTIONS: f"-Xlog:class+load:file={tmp_path / 'load.log'}",
    }

    def started() -> Any:
        with launcher.launched(find(), settings, {}, subprocess.DEVNULL) as gateway:
            return gateway

    return started


def written(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "cache").glob("spark-*.jsa*"))


@pytest.mark.slow
@pytest.mark.spark
def test_a_jvm_ends_without_an_archive_after_its_program_was_killed(
    start: Callable[[], Any], tmp_path: Path
) -> None:
    killed = start()
    # All that it sees of a program that was killed.
    killed.proc.stdin.close()
    assert killed.proc.wait(120) == 0
    assert written(tmp_path) == []


@pytest.mark.slow
@pytest.mark.spark
def test_a_jvm_writes_its_archive_before_its_end_and_another_one_reads_it(
    start: Callable[[], Any], tmp_path: Path
) -> None:
    for place in ("jar", "archive"):
        gateway = start()
        launcher.write_archive(gateway)
        launcher.end(gateway.proc)
        (file,) = written(tmp_path)
        assert file.suffix == ".jsa"
        lines = (tmp_path / "load.log").read_text().splitlines()
        (line,) = [one for one in lines if ".deploy.SparkSubmit " in one]
        # Java 21 writes it and then refuses it: "shared class paths mismatch".
        used = place == "archive" and find().version < (19, 0, 0)
        assert ("shared objects file (top)" in line) is used, line


def test_a_run_that_was_killed_and_one_without_an_archive_leave_nothing(jars: Path) -> None:
    made = archive(jars)
    assert made.written is not None
    made.keep()
    made.written.write_bytes(b"half of it")
    made.written.with_name(f"{made.written.name}.temp").write_bytes(b"less")
    made.discard()
    assert not list(made.written.parent.glob("spark-*"))
    assert archive(jars).written is not None


def test_an_archive_that_is_broken_or_of_other_classes_is_none_and_javas_own_stays(
    jars: Path,
) -> None:
    made = archive(jars)
    run(jars, made)
    made.keep()
    (file,) = (jars.parent / "cache").glob("spark-*.jsa")
    file.chmod(0o644)
    with file.open("r+b") as header:
        header.write(bytes(4096))
    own = "archive" if find().version >= (19, 0, 0) else "file"
    assert run(jars, archive(jars)) == f"{own}, file"
    # Half of it ends Java: whoever sees that removes it.
    archive(jars).discard()
    assert archive(jars).written is not None
    file.touch()
    (jars / "more.jar").touch()
    assert archive(jars).written is not None


def test_without_a_directory_that_java_can_be_told_there_is_none(
    jars: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LONDISTE_CACHE", str(tmp_path / "with blank"))
    assert archive(jars) == ClassArchive()
