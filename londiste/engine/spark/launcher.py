"""Launch of the JVM of Spark, which ends with this process whatever the moment.

The JVM writes where it listens into a file, and then reads from a pipe that only this process
holds: the end of the pipe is its end.  pyspark removes the directory of that file when the start
is interrupted, and a JVM that cannot write it never comes to read the pipe.  So the file is in a
directory that stays.  A start that is given up is killed with all its processes.

Settings may be secrets, and every user can list arguments: the JVM reads them from a file that only
this user can read, which is removed when it has.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import secrets
import shlex
import signal
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from londiste.embedded.class_archive import ClassArchive, find_archive
from londiste.embedded.homes import user_caches
from londiste.embedded.java import Java
from londiste.errors import TransientError

#: Options of every JVM, before those of the user.
DEFAULT_OPTIONS = "spark.driver.defaultJavaOptions"
EXTRA_OPTIONS = "spark.driver.extraJavaOptions"

#: The launcher of Spark is a JVM of its own, which runs for a moment.
_LAUNCHER_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"

_POLL_SECONDS = 0.02
#: Seconds that a JVM has to end after its pipe has.
_END_SECONDS = 15.0
#: Seconds that it has to write its archive, once.  With too few no session would ever have one.
_WRITE_SECONDS = 60.0
#: Seconds after which the files of a JVM whose program was killed are removed.
_LEFT_SECONDS = 3600.0

log = logging.getLogger(__name__)

_lock = threading.Lock()
_starting: subprocess.Popen[bytes] | None = None
_archives: dict[int, ClassArchive] = {}


def home() -> Path:
    """The Spark that is started: that of ``SPARK_HOME`` only if pyspark is of its release.

    A host of a cluster may have the variable for another one, with which pyspark cannot talk.
    """
    import pyspark
    from pyspark.find_spark_home import _find_spark_home

    own, given = Path(pyspark.__file__).parent, Path(os.environ.get("SPARK_HOME") or os.devnull)
    if any(given.glob(f"jars/spark-core_*-{pyspark.__version__}*.jar")):
        return given
    # Without them it is a part of another directory.
    return own if (own / "jars").is_dir() else Path(_find_spark_home())


def archive(settings: Mapping[str, str], java: Java) -> ClassArchive:
    """The archive of Spark's classes; none where the user has options for one."""
    import pyspark

    if "SharedArchive" in settings.get(DEFAULT_OPTIONS, "") + settings.get(EXTRA_OPTIONS, ""):
        return ClassArchive()
    return find_archive(
        java,
        f"spark-{pyspark.__version__}",
        [home() / "jars"],
        settings.get("spark.driver.extraClassPath", ""),
        os.environ.get("SPARK_CONF_DIR", ""),
    )


@contextlib.contextmanager
def launched(
    java: Java,
    settings: Mapping[str, str],
    environment: Mapping[str, str],
    output: IO[bytes] | int,
) -> Iterator[Any]:
    """Starts the JVM; the gateway of pyspark to it.  A block that fails ends the JVM.

    environment -- on top of that of this process.
    output -- where its stdout and stderr go.

    Raises RuntimeError when the JVM ends before it listens, and TransientError when ``give_up``
    has ended it.
    """
    global _starting
    from pyspark.java_gateway import launch_gateway

    # Of a connection that ends with its JVM; what has failed is told by the job that failed.
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(_not_of_py4j)
    file = _directory() / f"spark-jvm-{secrets.token_hex(8)}.info"
    properties = file.with_suffix(".properties")
    classes = archive(settings, java)
    arguments, text = _arguments(properties, _with(settings, classes))
    try:
        with _lock:
            _write_private(properties, text)
            process = _starting = subprocess.Popen(
                [str(home() / "bin" / "spark-submit"), *arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={
                    **os.environ,
                    **environment,
                    "JAVA_HOME": str(java.home),
                    "SPARK_HOME": str(home()),
                    "SPARK_CONNECT_MODE": "0",
                    "SPARK_LAUNCHER_OPTS": os.environ.get("SPARK_LAUNCHER_OPTS", _LAUNCHER_OPTIONS),
                    "_PYSPARK_DRIVER_CONN_INFO_PATH": str(file),
                },
                # Ctrl-C is for this process, which then decides; and all can be killed together.
                process_group=0,
            )
        try:
            port, secret = _listening(process, file)
            properties.unlink(missing_ok=True)
            with environment_of(
                {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
            ):
                gateway = launch_gateway()
            gateway.proc = process
            _archives[process.pid] = classes
            yield gateway
            with _lock:
                if _starting is not process:
                    raise _given_up()
                _starting = None
        except BaseException as error:
            if process.poll() is not None and _starting is process:
                # It has ended by itself; a damaged archive would end the next one as well.
                classes.discard()
            kill(process)
            if _starting is not process and isinstance(error, Exception):
                raise _given_up() from None
            raise
    finally:
        file.unlink(missing_ok=True)
        properties.unlink(missing_ok=True)


def _not_of_py4j(record: logging.LogRecord) -> bool:
    """Some modules of py4j log as root, with tracebacks."""
    return Path(record.pathname).parent.name != "py4j"


def give_up() -> None:
    """Kills a JVM that is being started; whoever waits for it gets TransientError."""
    global _starting
    with _lock:
        process, _starting = _starting, None
    if process is not None:
        kill(process)


def write_archive(gateway: Any) -> None:
    """Has a JVM that was started without an archive of its classes write one; ``end`` follows."""
    process = gateway.proc
    classes = _archives.pop(process.pid, ClassArchive())
    if classes.written is None or process.poll() is not None:
        return
    writer = threading.Thread(target=_dump, args=(gateway, str(classes.written)), daemon=True)
    writer.start()
    writer.join(_WRITE_SECONDS)
    if writer.is_alive():
        kill(process)
        classes.discard()
    else:
        classes.keep()


def _dump(gateway: Any, file: str) -> None:
    """The diagnostic command ``VM.cds dynamic_dump``; one that fails leaves no file."""

    def array(kind: Any, *values: Any) -> Any:
        made = gateway.new_array(kind, len(values))
        for place, value in enumerate(values):
            made[place] = value
        return made

    try:
        java = gateway.jvm.java.lang
        name = gateway.jvm.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
        words = array(java.String, "dynamic_dump", file)
        signature = array(java.String, "[Ljava.lang.String;")
        # The class of the server is not public, but the interface is.
        methods = java.Class.forName("javax.management.MBeanServer").getMethods()
        (invoke,) = [method for method in methods if method.getName() == "invoke"]
        server = java.management.ManagementFactory.getPlatformMBeanServer()
        invoke.invoke(
            server, array(java.Object, name, "vmCds", array(java.Object, words), signature)
        )
    except Exception:
        log.debug("Spark: no archive of its classes", exc_info=True)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a JVM by its pipe, or kills it."""
    with contextlib.suppress(OSError):
        assert process.stdin is not None
        process.stdin.close()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """kill -9 of the JVM, and of the scripts that are about to become it."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    with contextlib.suppress(OSError):
        assert process.stdin is not None
        process.stdin.close()


def _with(settings: Mapping[str, str], classes: ClassArchive) -> dict[str, str]:
    """The settings, and the options of the archive before those of the user."""
    options = " ".join([*classes.options, settings.get(DEFAULT_OPTIONS, "")]).strip()
    return {**settings, **({DEFAULT_OPTIONS: options} if options else {})}


def _arguments(properties: Path, settings: Mapping[str, str]) -> tuple[list[str], bytes]:
    """Arguments of the program with what the user has pyspark add to them, and its properties.

    A file that the user adds takes the place of the defaults of Spark, as it does there; our
    settings win over it.
    """
    reader = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    reader.add_argument("--properties-file", type=Path)
    given, added = reader.parse_known_args(
        shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    )
    arguments, before = ["--properties-file", str(properties)], b""
    if given.properties_file is None:
        arguments.append("--load-spark-defaults")
    else:
        before = given.properties_file.read_bytes() + b"\n"
    return [*arguments, *added], before + _property_lines(settings).encode("ascii")


def _property_lines(settings: Mapping[str, str]) -> str:
    """Pure: a file of properties as Java reads it."""

    def escaped(text: str) -> str:
        units = struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass"))
        return "".join(
            chr(unit) if chr(unit).isascii() and chr(unit).isalnum() else f"\\u{unit:04x}"
            for (unit,) in units
        )

    return "".join(f"{escaped(key)}={escaped(value)}\n" for key, value in settings.items())


def _write_private(file: Path, text: bytes) -> None:
    """Writes a new file that only this user can read."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as written:
        written.write(text)


def _listening(process: subprocess.Popen[bytes], file: Path) -> tuple[int, str]:
    """Port and secret of a JVM, when it listens."""
    while not file.exists():
        if process.poll() is not None:
            raise RuntimeError("Java gateway process exited before sending its port number")
        time.sleep(_POLL_SECONDS)
    text = file.read_bytes()
    port, size = struct.unpack("!ii", text[:8])
    return port, text[8 : 8 + size].decode()


def _directory() -> Path:
    """Where JVMs write, without the files of those whose program was killed."""
    directory = next(user_caches(), Path(tempfile.gettempdir()))
    for left in directory.glob("spark-jvm-*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _LEFT_SECONDS:
                left.unlink()
    return directory


def _given_up() -> TransientError:
    return TransientError("Spark: its start was given up", hint="wait: the next job starts it")


@contextlib.contextmanager
def environment_of(changes: Mapping[str, str]) -> Iterator[None]:
    """Variables that pyspark reads from the environment of this process."""
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
