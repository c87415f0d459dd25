"""Spark failures as Londiste errors: one line with a hint.

Spark tells a failure as the trace of its JVM, dozens of lines of which one says what happened.
That line is found here, and nowhere else; the trace goes to the log at level debug.
"""

from __future__ import annotations

import builtins
import logging
import re
from collections.abc import Sequence

from londiste.errors import LondisteError, SparkUnavailable, TransientError

log = logging.getLogger(__name__)

#: "Task 3 in stage 0.0 failed 4 times, most recent failure: Lost task 3.3 in stage 0.0 (TID 7)
#: (10.0.0.5 executor 2): why"
_TASK = re.compile(
    r"Task (?P<task>\d+)(?:\.\d+)? in stage \S+ failed (?P<times>\d+) times, most recent failure: "
    r"Lost task \S+ in stage \S+ \(TID \d+\) "
    r"\((?P<host>\S+) executor (?P<executor>[^)]+)\): (?P<reason>.*)"
)
_CONNECTION = {
    "Py4JNetworkError",
    "Py4JError",
    "ConnectionRefusedError",
    "ConnectionResetError",
    "BrokenPipeError",
    "EOFError",
}
_LOCALLY = 'or run without Spark: engine = "local"'
_MEMORY = "check the kernel's log for the out-of-memory killer"


def translated(error: Exception, labels: Sequence[str] = ()) -> LondisteError:
    """The error of ours that stands for one of Spark's.

    labels -- what the tasks of the job do, in their order.
    """
    text = format_failure(error)
    log.debug("Spark reported:\n%s", text)
    name = type(error).__name__
    if name in _CONNECTION:
        return TransientError(
            "Spark: connection to the JVM lost",
            detail=_cut(_first(text)),
            hint="wait: the next job starts a new JVM; if it was killed, " + _MEMORY,
        )
    if "cancelled" in text and "job" in text.lower():
        return TransientError("Spark: job was cancelled")
    if "stopped SparkContext" in text or "SparkContext was shut down" in text:
        return TransientError(
            "Spark: session was ended",
            detail="the Spark master removed the application"
            if "remov" in text
            else _cut(_first(text)),
            hint="wait: the next job starts a new session",
        )
    found = _TASK.search(text)
    where = f"{_label(found, labels)}, on {found['host']}" if found is not None else ""
    for line in reversed(text.splitlines()):
        if line.startswith("londiste.errors."):
            return TransientError(
                _cut(line.partition(": ")[2] or line), detail=where or "in a Spark task"
            )
    ours = _of_python(text, f"on {found['host']}" if found is not None else "")
    if ours is not None:
        return ours
    if "Python worker exited unexpectedly" in text or "ExecutorLostFailure" in text:
        again = f"{found['times']} times: {where}" if found is not None else ""
        why = _first(found["reason"]) if found is not None else ""
        return TransientError(
            "Spark: a task was killed",
            detail="; ".join(filter(None, [again, _plain(why), "its transaction was rolled back"])),
            hint=f"{_MEMORY} there, {_LOCALLY}" if found is not None else _MEMORY,
        )
    if "failed to connect back" in text:
        return TransientError(
            "Spark: a Python worker did not start in time",
            detail="; ".join(filter(None, [where, "Spark waits ten seconds for it"])),
            hint="reduce the load of the host, or repeat the command",
        )
    raised = _raised(text)
    reason = raised or (_plain(found["reason"]) if found is not None else _says(text))
    hint = 'run with spark.log.level = "INFO" for details'
    if not raised and "No space left on device" in reason:
        hint = "free space in spark.local.dir (default: /tmp)"
    return LondisteError(
        "Spark: job failed",
        detail=_cut(": ".join(filter(None, [where, reason]))),
        hint=f"{hint}, {_LOCALLY}",
    )


def unusable(problem: str) -> LondisteError:
    """The error for an executor on which our tasks cannot run.

    problem -- as the executor found it, its host first.
    """
    return SparkUnavailable(
        "Spark: an executor cannot run Londiste's tasks",
        detail=problem,
        hint='set a Python that has the missing package: spark.pyspark.python = "PATH"'
        f" (psycopg[binary] and pyarrow are required), {_LOCALLY}",
    )


def no_master(master: str, reason: str) -> LondisteError:
    """The error for a master, or a server of Spark Connect, that cannot be reached."""
    what, setting = ("server", "remote") if master.startswith("sc://") else ("master", "master")
    return SparkUnavailable(
        f"Spark: the {what} does not answer",
        detail=f"{master}: {reason}",
        hint=f"start it, correct spark.{setting}, {_LOCALLY}",
    )


def lost_server(error: Exception) -> LondisteError:
    """The error for a job whose server of Spark Connect has ended, or knows the session no more."""
    log.debug("Spark reported:\n%s", format_failure(error))
    return TransientError(
        "Spark: connection to the server lost",
        detail="the job has ended with it",
        hint=f"wait: the next job opens a new session; {_MEMORY}",
    )


def no_executor(master: str, seconds: float) -> LondisteError:
    """The error for a cluster that gives us nothing to run tasks on."""
    return SparkUnavailable(
        "Spark: no executor for Londiste's tasks",
        detail=f"{master}: none for {seconds:g} s",
        hint="check on the master's page that a worker is alive with a free core and enough"
        f" spark.executor.memory, {_LOCALLY}",
    )


def format_failure(error: Exception) -> str:
    """The text of an error; one of the JVM asks the JVM for it, which may be gone."""
    try:
        return str(error)
    except Exception:
        return type(error).__name__


def _of_python(text: str, where: str) -> LondisteError | None:
    """Errors of Spark's own program in the executors."""
    for pattern in (
        r"ModuleNotFoundError: (No module named .*)",
        r"\[PYTHON_VERSION_MISMATCH\] (.*)",
        r"(?:PySparkImportError|PACKAGE_NOT_INSTALLED\]?):? (.*)",
        r'(Cannot run program ".*)',
    ):
        found = re.search(pattern, text)
        if found is not None:
            return unusable(": ".join(filter(None, [where, _cut(found[1])])))
    return None


def _raised(text: str) -> str:
    """What a Python worker raised; '' if it raised nothing.

    An error of the operating system has its text; that of others may contain values of rows.
    """
    _, traced, trace = text.rpartition("Traceback (most recent call last):")
    lines = trace.splitlines()[1:] if traced else []
    last = next((line for line in lines if line[:1].strip()), "")
    name = last.partition(":")[0]
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, OSError):
        return last
    return name and f"{name.rpartition('.')[2]} in a Python worker"


def _label(found: re.Match[str], labels: Sequence[str]) -> str:
    number = int(found["task"])
    return labels[number] if number < len(labels) else f"task {number}"


def _plain(reason: str) -> str:
    """Without the names of Java classes in front."""
    plain = re.sub(r"^(?:[\w.$]+(?:Exception|Error): )+", "", _first(reason))
    return _cut(plain.partition(". Consider setting")[0])


def _says(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("An error occurred while calling")]
    return _plain(lines[0].removeprefix(": ")) if lines else ""


def _first(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _cut(text: str) -> str:
    return text[:400]
