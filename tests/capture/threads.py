"""A leaf's worker and its copies in threads of the test: no process is started for a case."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from typing import cast

from londiste.copy.process import CopyProcess
from londiste.copy.sessions import CopyJob
from londiste.daemon.child import Child
from londiste.daemon.signals import Signals
from londiste.engine.local.engine import LocalEngine
from londiste.replication.worker.copy_launcher import Copies
from londiste.replication.worker.worker import Worker
from londiste.settings import WorkerSettings


class WorkerThread:
    """A worker that runs until ``close``; ``report`` says what it has died of."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._signals = Signals()
        self._engine = LocalEngine()
        self._failures: list[str] = []
        self._worker = Worker(lambda: settings, self._signals)
        self._worker.copies = _ThreadCopies(self._copy)
        self._thread = threading.Thread(target=self._run, name=settings.job_name, daemon=True)
        self._thread.start()

    def report(self) -> str:
        """Why the worker or a copy has ended, if it has."""
        return "\n".join(self._failures)

    def close(self) -> None:
        """Ends the worker and gives its sessions back."""
        self._signals.stop()
        self._thread.join()
        self._signals.close()
        self._engine.close()

    def _run(self) -> None:
        try:
            self._worker.run()
        except Exception:
            self._failures.append(traceback.format_exc())

    def _copy(self, signals: Signals) -> None:
        """What the copy process does."""
        settings = self._settings
        job = CopyJob(
            db=settings.db,
            queue=settings.queue_name,
            consumer=settings.consumer,
            engine=self._engine,
            parallel=settings.parallel_copies,
            chunk_bytes=settings.copy_chunk_bytes,
            delay=settings.poll_interval,
            resumable_from=settings.resumable_copy_min_bytes,
        )
        work = CopyProcess(job, parallel=settings.parallel_copies, longest_pause=0.3)
        try:
            work.run(signals)
        except Exception:
            self._failures.append(traceback.format_exc())
            raise


class _ThreadCopies(Copies):
    """Starts the copies in a thread in the place of a process."""

    def __init__(self, copy: Callable[[Signals], None]) -> None:
        super().__init__([], longest_pause=0.2)
        self._copy = copy

    def _begin(self) -> Child:
        return cast(Child, _Thread(self._copy))


class _Thread:
    """What ``Copies`` asks of a child process."""

    pid = 0

    def __init__(self, run: Callable[[Signals], None]) -> None:
        self._signals = Signals()
        self._code: int | None = None
        self._thread = threading.Thread(target=self._run, args=(run,), daemon=True)
        self._thread.start()

    def exit_code(self) -> int | None:
        return None if self._thread.is_alive() else self._code

    def terminate(self) -> None:
        self._signals.stop()
        self._thread.join()

    def _run(self, run: Callable[[Signals], None]) -> None:
        try:
            run(self._signals)
            self._code = 0
        except Exception:
            self._code = 1
        finally:
            self._signals.close()
