"""The one place that builds a Spark session, on the first job that needs one.

One session per process, shared by its threads.  Without ``spark.master`` Spark runs inside
this program (``local[*]``, one JVM of about half a gigabyte); on a cluster only the setting
changes, and this package has to be installed where the executors run.  The JVM ends with the
process, because it reads from a pipe that only this process holds.

Spark is silent: stdout belongs to results, and its errors become ours.  With the setting
``spark.log.level`` it logs to stderr.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import londiste
from londiste.embedded.java import find_java
from londiste.errors import LondisteError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

#: A task is tried this often, in local mode too (where Spark itself would try once).
ATTEMPTS = 4

_JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"

_LOCAL = re.compile(r"local(?:\[(\*|\d+)\])?")

_lock = threading.Lock()
_session: Any = None


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

    Raises JavaMissing, or LondisteError with what the JVM said when it does not start.
    """
    global _session
    with _lock:
        if _session is not None and _is_dead():
            log.warning("the JVM of Spark has ended, a new session is started")
            _forget()
        if _session is None:
            _session = _start(merged(given))
        session: SparkSession = _session
        return session


def stop() -> None:
    """Ends the session and its JVM; the next ``get`` starts another."""
    global _session
    with _lock:
        session, _session = _session, None
        if session is None:
            return
        with contextlib.suppress(Exception):
            session.stop()
        _end_gateway()


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

    remote = settings.get("spark.remote") or os.environ.get("SPARK_REMOTE")
    log.info("starting Spark, %s", remote or f"master {settings['spark.master']}")
    said = tempfile.TemporaryFile() if "spark.log.level" not in settings else None  # noqa: SIM115
    try:
        if not remote:
            _launch(settings, said)
        builder = SparkSession.builder
        for key, value in settings.items():
            if not remote or key != "spark.master":
                builder = builder.config(key, value)
        return builder.getOrCreate()
    except (PySparkException, Py4JError, RuntimeError, OSError, ValueError) as error:
        _end_gateway()
        raise LondisteError(
            "spark does not start",
            detail=_reason(error, said),
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
    with _environment({"JAVA_HOME": str(find_java()), **_python_environment()}):
        gateway = launch_gateway(conf, {"stdout": output, "stderr": output})
        SparkContext(conf=conf, gateway=gateway)


def _reason(error: Exception, said: IO[bytes] | None) -> str:
    """What the JVM printed says more than pyspark's "Java gateway process exited"."""
    printed = ""
    if said is not None:
        said.seek(0)
        printed = said.read(64 * 1024).decode("utf-8", "replace")
    for sign in (r"\w(Exception|Error): ", r"(?i)error|invalid|not found|could not"):
        for line in (*printed.splitlines(), *str(error).splitlines()):
            if re.search(sign, line):
                return line.strip()[:500]
    return next(iter(str(error).strip().splitlines()), repr(error))[:500]


def _python_environment() -> dict[str, str]:
    """For the workers: this interpreter, and this package even when it is not installed."""
    package_root = str(Path(londiste.__file__).resolve().parent.parent)
    known = [package_root, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, known))),
        "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
    }


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
