"""Spark session: started once, by the first job that needs it.

One session per process, shared by its threads.  Without ``spark.master`` Spark runs inside
this program (``local[*]``, one JVM of about half a gigabyte); on a cluster only the setting
changes, and this package travels with the session.  The JVM ends with the process
(``launcher``).

Jobs that move no rows through Spark need its context alone.  The session of SQL, whose classes
cost as much as everything else, starts with the first DataFrame.

Spark prints nothing: stdout is for results, and its errors become Londiste errors.  With the
setting ``spark.log.level`` it logs to stderr.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import londiste
from londiste.embedded.java import find
from londiste.engine.base import READY
from londiste.engine.spark import connect, launcher
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

#: Seconds for which the session that is ready is news.
_TOLD_SECONDS = 3.0

#: Seconds in which a master has to take a connection.
_ANSWER = 5.0

_lock = threading.Lock()
_starting = threading.Event()
#: The SparkContext; with Spark Connect, which has none, the session.
_carrier: Any = None
_shipped = ""
_ready_text, _ready_at = "", -_TOLD_SECONDS


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


def is_local(given: Mapping[str, str]) -> bool:
    """Whether the tasks of a session with these settings run in processes of this host."""
    master = given.get("spark.master", "local[*]")
    return not connect.remote(given) and _LOCAL.fullmatch(master.strip()) is not None


def get(given: Mapping[str, str]) -> SparkSession:
    """The session of this process; the settings of the first caller count.

    Raises what ``carrier`` raises.
    """
    from pyspark.sql import SparkSession

    found = carrier(given)
    if not has_context(found):
        session: SparkSession = found
        return session
    # With the context that is there; other settings than those of its launch are not given.
    return SparkSession.builder.getOrCreate()


def carrier(given: Mapping[str, str]) -> Any:
    """What jobs run on: the SparkContext of this process, or a session of Spark Connect.

    Raises JavaMissing, SparkUnavailable when the master does not answer, or LondisteError with
    what the JVM said when it does not start.
    """
    global _carrier
    with _lock:
        if _carrier is not None and _is_dead():
            log.warning("Spark: the JVM has ended, starting a new session")
            _forget()
        if _carrier is not None and _is_stopped(_carrier):
            log.warning("Spark: the cluster ended the session, starting a new one")
            _stop()
        if _carrier is None:
            _starting.set()
            try:
                _carrier = _start(given)
            finally:
                _starting.clear()
        return _carrier


def has_context(carrier: Any) -> bool:
    """Whether RDDs can be made of it; Spark Connect has DataFrames alone."""
    return hasattr(carrier, "parallelize")


def is_ready() -> bool:
    """Whether there is a session."""
    return _carrier is not None


def news() -> str:
    """The step of a session that starts, or has just started; '' when there is nothing to tell."""
    if _starting.is_set():
        return "starting Spark"
    return _ready_text if time.monotonic() - _ready_at < _TOLD_SECONDS else ""


def shipped() -> str:
    """Name of the archive with this package that executors unpack; '' when they need none."""
    return _shipped


def stop() -> None:
    """Ends the session and its JVM, also one that is being started; the next job starts another."""
    launcher.give_up()
    with _lock:
        _stop()


def _stop() -> None:
    global _carrier
    found, _carrier = _carrier, None
    if found is None:
        return
    with contextlib.suppress(Exception):
        if has_context(found):
            _forget_session()
        found.stop()
    _end_gateway()


def _is_stopped(carrier: Any) -> bool:
    """Whether the cluster has ended the session: its master has removed the application."""
    try:
        return has_context(carrier) and bool(carrier._jsc.sc().isStopped())
    except Exception:  # The connection has ended as well.
        return True


def _is_dead() -> bool:
    """Whether the JVM of this process was killed; with Spark Connect there is none."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    return process is not None and process.poll() is not None


def forget_lost(carrier: Any) -> bool:
    """Whether the server of Spark Connect has lost this session; the next job connects anew.

    A server that was started again does not know it, which only a call can tell.
    """
    global _carrier
    if has_context(carrier):
        return False
    try:
        carrier.conf.get("spark.sql.shuffle.partitions")
    except Exception:
        with _lock:
            if carrier is _carrier:
                _carrier = None
        return True
    return False


def _forget() -> None:
    """What pyspark keeps of a session whose JVM is gone, which it cannot stop by itself."""
    global _carrier
    from pyspark import SparkContext

    _carrier = None
    _forget_session()
    _end_gateway()
    SparkContext._active_spark_context = None


def _forget_session() -> None:
    """pyspark would give the next context the session of the last one."""
    from pyspark.sql import SparkSession

    SparkSession._instantiatedSession = None


def _start(given: Mapping[str, str]) -> Any:
    # Imported here: help, queue and tail commands must not pay for it.
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    global _shipped, _ready_text, _ready_at
    settings = merged(given)
    server, where = connect.remote(given), settings["spark.master"]
    if server:
        # Its parameters may be a secret.
        where = f"sc://{connect.address(server)}"
    _ask(where)
    log.info("starting Spark, %s", where if server else f"master {where}")
    began = time.monotonic()
    said = tempfile.TemporaryFile() if "spark.log.level" not in settings else None  # noqa: SIM115
    try:
        found = connect.connected(server, given) if server else _launched(settings, said)
        _ready_text, _ready_at = _ready(found, time.monotonic() - began), time.monotonic()
        log.info("%s", _ready_text)
        _shipped = ship(found) if not server and is_needed(where) else ""
        return found
    except (PySparkException, Py4JError, RuntimeError, OSError, ValueError) as error:
        text = format_failure(error)
        log.debug("Spark reported:\n%s", text)
        reason = _reason(text, said)
        if "All masters are unresponsive" in reason:
            raise no_master(where, "it accepts the connection and sends no response") from None
        raise LondisteError(
            "cannot start Spark",
            detail=reason,
            hint=_to_check(),
        ) from error


def _to_check() -> str:
    """The hint of a failed start: what it depends on."""
    names = ["JAVA_HOME"]
    if Path(os.environ.get("SPARK_HOME", "")) == launcher.home():
        names.append("SPARK_HOME")
    if os.environ.get("SPARK_CONF_DIR"):
        names.append("SPARK_CONF_DIR")
    what = ", ".join(["spark.* in the settings", *names[:-1]])
    return f'check {what} and {names[-1]}, or use engine = "local"'


def _launched(settings: Mapping[str, str], said: IO[bytes] | None) -> Any:
    """The context of a new JVM, which has its settings from its launch.

    said -- where its stdout and stderr go; None leaves them on our stderr.
    """
    from pyspark import SparkContext

    python = _python_environment(settings)
    try:
        with (
            launcher.launched(
                find(),
                settings,
                python,
                sys.stderr.fileno() if said is None else said,
            ) as gateway,
            # pyspark tells the JVM what its workers are to run.
            launcher.environment_of(python),
            _own_interrupts(),
            _read_from_jvm(),
        ):
            found = SparkContext(gateway=gateway)
            # Its accumulators' connection ends with the JVM, which the job that failed reports.
            found._accumulatorServer.handle_error = _log_lost_connection
            return found
    except BaseException:
        _forget()
        raise


@contextlib.contextmanager
def _read_from_jvm() -> Iterator[None]:
    """Errors of the JVM with their text, which it is asked for: a block that fails ends it."""
    from py4j.protocol import Py4JError

    try:
        yield
    except Py4JError as error:
        raise RuntimeError(format_failure(error)) from error


@contextlib.contextmanager
def _own_interrupts() -> Iterator[None]:
    """Ctrl-C stays with this program: pyspark would cancel all jobs and raise KeyboardInterrupt."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _log_lost_connection(request: Any, client_address: Any) -> None:
    """Instead of a traceback on stderr; called in the handler of the exception."""
    log.debug("Spark: connection of accumulators", exc_info=True)


def _ready(found: Any, seconds: float) -> str:
    """What is to be known of a session that has started."""
    text = f"{READY} after {seconds:.1f} s"
    if not has_context(found):
        return text
    page = found.uiWebUrl
    return f"{text}, application {found.applicationId}" + (f", {page}" if page else "")


def _ask(where: str) -> None:
    """Raises SparkUnavailable when nobody takes a connection.

    Of the masters of a cluster of Spark's own, where Spark would try for a minute, and of a server
    of Spark Connect, where it would for ten.
    """
    kind, _, servers = where.partition("://")
    if kind not in ("spark", "sc"):
        return
    reasons = []
    for one in servers.split(","):
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
    process = getattr(gateway, "proc", None)
    if process is not None:
        launcher.write_archive(gateway)
    with contextlib.suppress(Exception):
        gateway.shutdown()
    if process is not None:
        launcher.end(process)
