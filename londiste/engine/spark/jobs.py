"""Runs picklable tasks as one Spark job and returns their results or errors.

A task travels as a few bytes in the job's closure, one partition per task (or per group of
tasks).  Rows of tables never enter Spark, so the job is one of RDDs, which needs nothing of SQL;
Spark Connect has only DataFrames, and there it is mapInArrow.  Errors of ours come back as
values: Spark would retry what cannot get better, and turn the error into a Java stack trace.
"""

from __future__ import annotations

import functools
import gc
import logging
import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import londiste
from londiste.engine import tasks
from londiste.engine.spark import session
from londiste.engine.spark.executor_watch import Patience
from londiste.engine.spark.failures import lost_server, translated, unusable
from londiste.errors import LondisteError
from londiste.wording import shortened

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

#: So many objects are looked through in 2 ms.
_MANY_OBJECTS = 5000
#: So many tasks that ran again are named.
_NAMED = 5

T = TypeVar("T")
R = TypeVar("R")


def run(carrier: Any, task: Callable[[T], R], items: Sequence[T], parallel: int) -> Iterator[R]:
    """Results in the order of the tasks' partitions, when the job has ended.

    carrier -- see ``session.carrier``.
    parallel -- at most so many tasks at a time; more than the executors have cores means all
        of those.

    Raises the first of our errors that a task ended with, TransientError when a task was
    killed as often as Spark tries, or SparkUnavailable when nothing of ours can run there.
    """
    if not items:
        return
    groups = [list(items[number :: max(1, parallel)]) for number in range(max(1, parallel))]
    if parallel >= len(items) or parallel >= _slots(carrier):
        groups = [[item] for item in items]
    groups = [group for group in groups if group]
    execute = _program(packed(task, groups), session.shipped())
    collect = by_rdd if session.has_context(carrier) else by_frame
    try:
        with Patience(carrier) as patience:
            rows = collect(carrier, execute, len(groups))
    except Exception as error:
        if session.forget_lost(carrier):
            raise lost_server(error) from error
        raise patience.exhausted or translated(
            error, [", ".join(map(tasks.label, group)) for group in groups]
        ) from error
    for _, problem in rows:
        if problem:
            raise unusable(problem)
    answers = [pickle.loads(bytes(answer)) for answer, _ in rows]
    # First of all: who has what he wants from the tasks takes no results any more.
    again = [(group, answer[2]) for group, answer in zip(groups, answers, strict=True) if answer[2]]
    _tell_lost([tasks.label(item) for group, _ in again for item in group], [n for _, n in again])
    for results, failure, _ in answers:
        yield from results
        if failure is not None:
            raise failure


def packed(task: Callable[[T], R], groups: Sequence[Sequence[T]]) -> bytes:
    """What every task of a job gets, since one program is sent to all of them.

    One pickle: what the items have in common, the columns of a table with its thousands of
    chunks, is in it once.
    """
    return zlib.compress(pickle.dumps((task, groups)), 1)


@functools.lru_cache(maxsize=2)
def _unpacked(payload: bytes) -> tuple[Callable[[Any], Any], list[list[Any]]]:
    """The other way round; once for all tasks of a job that a Python worker runs."""
    task, groups = pickle.loads(zlib.decompress(payload))
    return task, groups


def _tell_lost(names: Sequence[str], attempts: Sequence[int]) -> None:
    """One line for all tasks that ran again: an executor that is killed takes several along.

    Why each of them ran again is known to its executor only, which may be gone.
    """
    if not attempts:
        return
    many = f"{len(attempts)} tasks were" if len(attempts) > 1 else "a task was"
    log.warning(
        "Spark: %s lost, up to %d times, and ran again: a process or executor was killed, or a"
        " connection was lost: %s",
        many,
        max(attempts),
        shortened(names, _NAMED),
    )


#: What executors run: numbers of partitions to (answer, problem).
Program: TypeAlias = Callable[[Iterable[int]], Iterator[tuple[bytes, str]]]


def by_rdd(context: Any, execute: Program, count: int) -> list[tuple[bytes, str]]:
    """The answers of all partitions, by a job without SQL."""
    found: list[tuple[bytes, str]] = (
        context.parallelize(range(count), count).mapPartitions(execute).collect()
    )
    return found


def by_frame(spark: Any, execute: Program, count: int) -> list[tuple[bytes, str]]:
    """The answers of all partitions, by a DataFrame: Spark Connect has no RDD."""

    def convert(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        for batch in batches:
            for answer, problem in execute(batch.column(0).to_pylist()):
                columns = [
                    pyarrow.array([answer], pyarrow.binary()),
                    pyarrow.array([problem], pyarrow.string()),
                ]
                yield pyarrow.RecordBatch.from_arrays(columns, ["result", "problem"])

    rows = spark.range(0, count, 1, count).mapInArrow(convert, "result binary, problem string")
    return [(row[0], row[1]) for row in rows.collect()]


def _program(payload: bytes, package: str) -> Program:
    """What executors run; it travels by value and finds out there whether it can run.

    package -- name of the directory with our program, '' when executors have it in any case.
    """
    version = londiste.__version__

    def execute(numbers: Iterable[int]) -> Iterator[tuple[bytes, str]]:
        import socket
        import sys

        if package:
            from pyspark import SparkFiles

            # The archive is a package in it.
            path = SparkFiles.getRootDirectory()
            if path not in sys.path:
                sys.path.insert(0, path)
        problem = ""
        perform: Any = None
        host = socket.gethostname() if package else ""
        try:
            import londiste
            from londiste.engine.spark import jobs

            perform = jobs.perform
            if londiste.__version__ != version:
                problem = f"its version is {londiste.__version__}, not {version}"
        except ImportError as error:
            problem = str(error)
        if problem:
            problem = f"{socket.gethostname()}, {sys.executable}: {problem}"
        for number in numbers:
            yield (b"" if problem else perform(payload, number, host)), problem

    return execute


def perform(payload: bytes, number: int, host: str = "") -> bytes:
    """In the executor: the tasks of one partition; (results, our error or None, number of the
    attempt), pickled.

    payload -- see ``packed``; number -- the partition.
    host -- that of the executor when it belongs to a cluster.

    An error that may go away is raised, so that Spark tries the partition again, but for the
    last time.
    """
    from pyspark import TaskContext

    from londiste.daemon import crash
    from londiste.engine.spark.session import ATTEMPTS

    _spare_the_collector()
    context = TaskContext.get()
    attempt = context.attemptNumber() if context is not None else 0
    # A killed task shall get through when Spark tries it again.
    crash.arm(None if attempt == 0 else "")
    task, groups = _unpacked(payload)
    results: list[Any] = []
    failure: LondisteError | None = None
    item: Any = None
    try:
        for item in groups[number]:
            results.append(task(item))
    except Exception as error:
        failure = tasks.failed(error, item, host)
        if failure.retry and attempt < ATTEMPTS - 1:
            raise failure from error
    return pickle.dumps((results, failure, attempt))


def _spare_the_collector() -> None:
    """Takes what is there before a task out of the garbage collector's way.

    Spark's workers collect garbage after every task, and looking through the modules of pandas and
    pyarrow took 70 ms each time, as long as copying 10 MB.
    """
    if len(gc.get_objects()) > _MANY_OBJECTS:
        gc.freeze()


def _slots(carrier: Any) -> int:
    """Tasks that can run at a time; 1 with Spark Connect, which does not say."""
    return int(getattr(carrier, "defaultParallelism", 1))
