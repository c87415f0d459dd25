"""Spark session: started once, by the first job that needs it.

One session per process, shared by its threads.  Without ``spark.master`` Spark runs inside
this program (``local[*]``, one JVM of about half a gigabyte); on a cluster only the setting
changes, and this package travels with the session.  The JVM ends with the process, because it
reads from a pipe that only this process holds.

Spark prints nothing: stdout is for results, and its errors become Londiste errors.  With the
setting ``spark.log.level`` it logs to stderr.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import londiste
from londiste.embedded.java import find_java
from londiste.engine.spark.executor_watch import SETTING as PATIENCE
from londiste.engine.spark.failures import format_failure, no_master
from londiste.engine.spark.package_upload import is_needed, ship
from londiste.errors import LondisteError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

#: A task is tried this often, in local mode too (where Spark itself would try once).
ATTEMPTS = 4

_JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"

_LOCAL = re.compile(r"local(?:\[(\*|\d+)\])?")

#: Seconds in which a master has to take a connection.
_ANSWER = 5.0

_lock = threading.Lock()
_starting = threading.Event()
_session: Any = None
_shipped = ""


def defaults(master: str) -> dict[str, str]:
    """The settings before the user's own."""
    settings = {
        "spark.app.name": "londiste",
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        # Several tables are copied at a time: a small one shall not wait for a large one.
        "spark.scheduler.mode": "FAIR",
        # A second run of a task finds the done-mark of the first and only waits for it.
        "spark.speculation": "false",
        "spark.task.maxFailures": str(ATTEMPTS),
        PATIENCE: "60s",
    }
    if master.startswith("local"):
        configuration = Path(__file__).with_name("log4j2.properties").as_uri()
        settings |= {
            "spark.driver.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"{_JAVA_OPTIONS}"
            f" -Dlog4j2.configurationFile={configuration}",
        }
    return settings


def merged(given: Mapping[str, str]) -> dict[str, str]:
    """All settings of a session: the defaults for its master, then the given ones."""
    settings = {**defaults(master(given.get("spark.master", "local[*]"))), **_without_master(given)}
    if "spark.log.level" in given and "spark.driver.extraJavaOptions" not in given:
        settings["spark.driver.extraJavaOptions"] = _JAVA_OPTIONS
    return settings


def master(text: str) -> str:
    """``local``, ``local[*]`` and ``local[n]`` with retries; everything else as it is."""
    found = _LOCAL.fullmatch(text.strip())
    if found is None:
        return text
    return f"local[{found.group(1) or '1'},{ATTEMPTS}]"


def get(given: Mapping[str, str]) -> SparkSession:
    """The session of this process; the settings of the first caller count.

    Raises JavaMissing, SparkUnavailable when the master does not answer, or LondisteError with
    what the JVM said when it does not start.
    """
    global _session
    with _lock:
        if _session is not None and _is_dead():
            log.warning("Spark: the JVM has ended, starting a new session")
            _forget()
        if _session is not None and _is_stopped(_session):
            log.warning("Spark: the cluster ended the session, starting a new one")
            _stop()
        if _session is None:
            _starting.set()
            try:
                _session = _start(merged(given))
            finally:
                _starting.clear()
        session: SparkSession = _session
        return session


def starting() -> bool:
    """Whether the session is being started, which takes seconds."""
    return _starting.is_set()


def shipped() -> str:
    """Name of the archive with this package that executors unpack; '' when they need none."""
    return _shipped


def stop() -> None:
    """Ends the session and its JVM; the next ``get`` starts another."""
    with _lock:
        _stop()


def _stop() -> None:
    global _session
    session, _session = _session, None
    if session is None:
        return
    with contextlib.suppress(Exception):
        session.stop()
    _end_gateway()


def _is_stopped(session: Any) -> bool:
    """Whether the cluster has ended the session: its master has removed the application."""
    try:
        return bool(session.sparkContext._jsc.sc().isStopped())
    except Exception:  # Spark Connect has no context.
        return False


def _is_dead() -> bool:
    """Whether the JVM of this process was killed; with Spark Connect there is none."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    return process is not None and process.poll() is not None


def _forget() -> None:
    """What pyspark keeps of a session whose JVM is gone, which it cannot stop by itself."""
    global _session
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    _session = None
    _end_gateway()
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def _start(settings: Mapping[str, str]) -> SparkSession:
    # Imported here: help, queue and tail commands must not pay for it.
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    global _shipped
    remote = settings.get("spark.remote") or os.environ.get("SPARK_REMOTE")
    where = settings["spark.master"]
    if not remote:
        _ask(where)
    log.info("starting Spark, %s", remote or f"master {where}")
    said = tempfile.TemporaryFile() if "spark.log.level" not in settings else None  # noqa: SIM115
    try:
        if not remote:
            _launch(settings, said)
        builder = SparkSession.builder
        for key, value in settings.items():
            if not remote or key != "spark.master":
                builder = builder.config(key, value)
        session = builder.getOrCreate()
        _shipped = ship(session.sparkContext) if not remote and is_needed(where) else ""
        return session
    except (PySparkException, Py4JError, RuntimeError, OSError, ValueError) as error:
        # Asked for before the JVM that knows it has ended.
        text = format_failure(error)
        log.debug("Spark reported:\n%s", text)
        _end_gateway()
        reason = _reason(text, said)
        if "All masters are unresponsive" in reason:
            raise no_master(where, "it accepts the connection and sends no response") from None
        raise LondisteError(
            "cannot start Spark",
            detail=reason,
            hint="check spark.* in the settings and JAVA_HOME, or set engine = local",
        ) from error


def _launch(settings: Mapping[str, str], said: IO[bytes] | None) -> None:
    """Starts the JVM with its own environment and output; pyspark takes it from there.

    said -- where its stdout and stderr go; None leaves them on our stderr.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    output = said.fileno() if said is not None else sys.stderr.fileno()
    with _environment({"JAVA_HOME": str(find_java()), **_python_environment(settings)}):
        gateway = launch_gateway(conf, {"stdout": output, "stderr": output})
        SparkContext(conf=conf, gateway=gateway)


def _ask(where: str) -> None:
    """Raises SparkUnavailable when no master of a cluster of Spark's own takes a connection.

    Spark would try for a minute.
    """
    if not where.startswith("spark://"):
        return
    reasons = []
    for one in where.removeprefix("spark://").split(","):
        host, _, port = one.strip().rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _ANSWER).close()
            return
        except (OSError, ValueError) as error:
            reasons.append(f"{one}: {error}" if "," in where else str(error))
    raise no_master(where, "; ".join(reasons))


def _reason(text: str, said: IO[bytes] | None) -> str:
    """What the JVM printed says more than pyspark's "Java gateway process exited"."""
    printed = ""
    if said is not None:
        said.seek(0)
        printed = said.read(64 * 1024).decode("utf-8", "replace")
    lines = [*printed.splitlines(), *text.splitlines()]
    for sign in (
        r"All masters are unresponsive",
        r"\w(Exception|Error): ",
        r"(?i)error|invalid|not found|could not",
    ):
        for line in lines:
            if re.search(sign, line):
                return line.strip()[:500]
    return next(iter(text.strip().splitlines()), "")[:500]


def _python_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """For the workers: this interpreter, and on this host this package even when not installed."""
    driver = settings.get("spark.pyspark.driver.python", sys.executable)
    found = {
        "PYSPARK_PYTHON": settings.get("spark.pyspark.python", sys.executable),
        "PYSPARK_DRIVER_PYTHON": driver,
    }
    if not is_needed(settings["spark.master"]):
        package_root = str(Path(londiste.__file__).resolve().parent.parent)
        known = [package_root, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        found["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, known)))
        # Not on a cluster: its executors have to reach this host.
        found["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
    return found


@contextlib.contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """The JVM and, through it, the workers inherit these; this process keeps its own."""
    before = {key: os.environ.get(key) for key in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def _without_master(given: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in given.items() if key != "spark.master"}


def _end_gateway() -> None:
    """pyspark keeps the JVM for a next session; half a gigabyte is too much for a maybe."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = None
    SparkContext._jvm = None
    with contextlib.suppress(Exception):
        gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        with contextlib.suppress(Exception):
            process.stdin.close()
            process.wait(10)
