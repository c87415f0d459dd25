"""Settings of a Spark session, before anything starts."""

from __future__ import annotations

import contextlib
import logging
import signal
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from londiste.embedded.java import Java
from londiste.engine.spark import launcher, session
from londiste.engine.spark.executor_watch import seconds
from londiste.engine.spark.session import master, merged
from londiste.errors import LondisteError


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("local", "local[1,4]"),
        ("local[*]", "local[*,4]"),
        ("local[3]", "local[3,4]"),
        ("local[3,1]", "local[3,1]"),
        ("spark://host:7077", "spark://host:7077"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
    ],
)
def test_local_masters_retry_tasks_as_a_cluster_does(given: str, expected: str) -> None:
    assert master(given) == expected


def test_given_settings_win_over_ours() -> None:
    found = merged({"spark.driver.memory": "2g", "spark.master": "local[3]", "spark.x": "y"})
    assert found["spark.driver.memory"] == "2g"
    assert found["spark.master"] == "local[3,4]"
    assert found["spark.x"] == "y"
    assert found["spark.ui.enabled"] == "false"


def test_a_cluster_gets_no_setting_that_only_fits_this_host() -> None:
    found = merged({"spark.master": "spark://host:7077"})
    assert "spark.driver.host" not in found
    assert "spark.driver.bindAddress" not in found


def test_asking_for_a_log_level_takes_our_silence_back() -> None:
    assert "log4j2.properties" in merged({})["spark.driver.extraJavaOptions"]
    assert "log4j2" not in merged({"spark.log.level": "INFO"})["spark.driver.extraJavaOptions"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("60s", 60), ("500ms", 0.5), ("2min", 120), ("2m", 120), ("1h", 3600), ("7", 7), ("soon", 60)],
)
def test_a_time_is_read_as_spark_reads_it(text: str, expected: float) -> None:
    assert seconds(text) == expected


def test_ctrl_c_stays_with_the_program_that_starts_a_session() -> None:
    before = signal.getsignal(signal.SIGINT)
    with session._own_interrupts():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_refused_setting_is_told_though_its_jvm_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jvm = ["the System memory is too small"]

    class Refused(Py4JError):  # type: ignore[misc]
        def __str__(self) -> str:
            return jvm[0]

    @contextlib.contextmanager
    def launched(*given: object) -> Iterator[None]:
        try:
            yield
        finally:
            jvm.clear()

    def refuse(gateway: None) -> None:
        raise Refused

    monkeypatch.setattr(session, "find", lambda: None)
    monkeypatch.setattr(session, "_forget", lambda: None)
    monkeypatch.setattr(launcher, "launched", launched)
    monkeypatch.setattr("pyspark.SparkContext", refuse)
    with pytest.raises(LondisteError, match="cannot start Spark") as caught:
        session._start(merged({}))
    assert caught.value.detail == "the System memory is too small"


def test_tracebacks_that_py4j_logs_as_root_are_dropped() -> None:
    from py4j import java_gateway

    for file, kept in ((java_gateway.__file__, False), (__file__, True)):
        record = logging.LogRecord("root", logging.ERROR, file, 1, "x", (), None)
        assert launcher._not_of_py4j(record) is kept


def test_another_spark_is_not_started_with_this_pyspark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = Path(pyspark.__file__).parent
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert launcher.home() == own
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.4.0.jar").touch()
    for other in (tmp_path, tmp_path / "absent", ""):
        monkeypatch.setenv("SPARK_HOME", str(other))
        assert launcher.home() == own
    assert session._to_check().startswith("check spark.* in the settings and JAVA_HOME, or")
    (tmp_path / "jars" / f"spark-core_2.13-{pyspark.__version__}.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setenv("SPARK_CONF_DIR", "/x")
    assert launcher.home() == tmp_path
    assert "JAVA_HOME, SPARK_HOME and SPARK_CONF_DIR, or" in session._to_check()


def test_the_list_of_processes_shows_no_setting_of_spark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bin" / "spark-submit"
    for directory in ("jars", "bin", "cache"):
        (tmp_path / directory).mkdir()
    (tmp_path / "jars" / f"spark-core_2.13-{pyspark.__version__}.jar").touch()
    program.write_text('#!/bin/sh\necho "$@"\numask\nls -l "$2"; cat "$2"\n', encoding="utf-8")
    program.chmod(0o755)
    (tmp_path / "own").write_text("spark.own=1", encoding="utf-8")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setenv("LONDISTE_CACHE", str(tmp_path / "cache"))
    for added in ("--x pyspark-shell", f"--x --properties-file {tmp_path}/own pyspark-shell"):
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", added)
        with (
            (tmp_path / "said").open("wb") as said,
            pytest.raises(RuntimeError),
            launcher.launched(Java(tmp_path, (17,), False), {"spark.k.secret": "s3cret"}, {}, said),
        ):
            pass
        arguments, _, file, *lines = (tmp_path / "said").read_text().splitlines()
        assert "s3cret" not in arguments
        assert arguments.endswith(" --x pyspark-shell")
        assert arguments.count("--properties-file") == 1
        assert ("--load-spark-defaults" in arguments) is ("spark.own=1" not in lines)
        assert file.startswith("-rw-------")
        assert lines[-1] == r"spark\u002ek\u002esecret=s3cret"
        assert not list((tmp_path / "cache").glob("*.properties"))
