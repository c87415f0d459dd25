"""Events of a batch for ``process_batch``, read on demand, once.

At most one list of events is in memory, whatever the size of the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from itertools import islice
from typing import Protocol

from londiste.daemon import crash
from londiste.errors import StateError
from londiste.pgq.types import Batch, Event


class Block(Sized, Iterable[Event], Protocol):
    """A list of fetched events: ``len`` counts them, iterating decodes them."""


class Events:
    """One pass over the events of a batch, in the order of their ids.

    Iterate over events, over ``chunks()`` for lists of them, or over ``blocks()`` to count or to
    look at few of them.  ``count`` says how many came so far: all of them once the pass is over.

    fetch -- events in a list of ``chunks()``, at most; 0 for all in one.
    """

    def __init__(self, batch: Batch, blocks: Iterator[Block], fetch: int = 0) -> None:
        self.batch = batch
        self.count = 0
        self.fetch = fetch
        self._blocks = blocks
        self._begun = False
        self._over = False

    def __iter__(self) -> Iterator[Event]:
        for block in self._begin():
            self.count += len(block)
            for event in block:
                yield event
                crash.point("consumer.mid-batch")

    def chunks(self) -> Iterator[list[Event]]:
        """Lists of events.  Raises StateError at the second pass."""
        if not self.fetch:
            whole = [event for block in self.blocks() for event in block]
            if whole:
                yield whole
            return
        for block in self._begin():
            events = iter(block)
            while chunk := list(islice(events, self.fetch)):
                self.count += len(chunk)
                yield chunk
                crash.point("consumer.mid-batch")

    def blocks(self) -> Iterator[Block]:
        """Events as they are fetched, not decoded: ``len(block)`` costs nothing.

        Raises StateError at the second pass.
        """
        for block in self._begin():
            self.count += len(block)
            yield block
            crash.point("consumer.mid-batch")

    def _begin(self) -> Iterator[Block]:
        if self._begun:
            raise StateError(
                f"batch {self.batch.id}: its events were read already",
                detail="a batch is read once, so that it is never in memory as a whole",
                hint="keep the events in a list: list(events)",
            )
        self._begun = True
        return self._to_the_end()

    def skip_rest(self) -> None:
        """Marks the remaining events as skipped on purpose."""
        self._begun = self._over = True

    def require_read(self) -> None:
        """Raises StateError if events are unread and ``skip_rest`` was not called."""
        if self._over or (not self._begun and next(self._blocks, None) is None):
            return
        raise StateError(
            f"batch {self.batch.id} of queue {self.batch.queue}: process_batch left events unread",
            detail="finishing the batch would skip the unread events",
            hint="read them all, or call events.skip_rest()",
        )

    def _to_the_end(self) -> Iterator[Block]:
        yield from self._blocks
        self._over = True
