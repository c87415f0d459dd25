"""Delivery contracts: the guarantees that a consumer can declare.

Each value has a chapter in docs/consumers/ with the consequences of every crash.
"""

from __future__ import annotations

import enum


class Delivery(enum.Enum):
    """Order of processing, storing the position and finishing."""

    #: Finish, then process: a crash loses what was not processed.
    AT_MOST_ONCE = "at most once"
    #: Process, then finish: a crash repeats the batch.
    AT_LEAST_ONCE = "at least once"
    #: Effects and finishing in one transaction of the queue's database.
    EXACTLY_ONCE_HERE = "exactly once in the same database"
    #: Effects and the position, a tick, in one transaction of another database.
    EXACTLY_ONCE_ELSEWHERE = "exactly once in another database"
    #: The same with the batch's id as position: events may be retried, a lost position is not seen.
    EXACTLY_ONCE_ELSEWHERE_BY_BATCH = "exactly once in another database, by batch"
    #: A mark for every event after its side effect: a crash repeats one event at most.
    ONCE_PER_EVENT = "once per event"
    #: Process, write the tick to a local file, finish.
    LOCAL_FILE = "position in a local file"
    #: Effects and the position of a node's consumer in one transaction of the node's database;
    #: for ``CascadedConsumer``.
    CASCADE_NODE = "exactly once in a node of a cascade"

    @property
    def one_transaction(self) -> bool:
        """Whether the loop commits all effects of a batch together."""
        return self in _ONE_TRANSACTION

    @property
    def elsewhere(self) -> bool:
        """Whether the position is kept in another database, in its schema pgq_ext."""
        return self in _ELSEWHERE

    @property
    def may_retry(self) -> bool:
        """Whether an event can be retried.

        False if the batch is finished before it is processed, or if the position can be
        rewound: the queue would deliver the event twice, as the original and as the retry.
        """
        return self not in _NO_RETRY

    @property
    def may_bury(self) -> bool:
        """Whether an event can become a dead letter.

        Its batch has to be open, and in a cascade other nodes would apply the event.
        """
        return self not in {Delivery.AT_MOST_ONCE, Delivery.CASCADE_NODE}


_ELSEWHERE = {Delivery.EXACTLY_ONCE_ELSEWHERE, Delivery.EXACTLY_ONCE_ELSEWHERE_BY_BATCH}
_ONE_TRANSACTION = {Delivery.EXACTLY_ONCE_HERE, *_ELSEWHERE, Delivery.CASCADE_NODE}
_NO_RETRY = {
    Delivery.AT_MOST_ONCE,
    Delivery.EXACTLY_ONCE_ELSEWHERE,
    Delivery.LOCAL_FILE,
    Delivery.CASCADE_NODE,
}

AT_MOST_ONCE = Delivery.AT_MOST_ONCE
AT_LEAST_ONCE = Delivery.AT_LEAST_ONCE
EXACTLY_ONCE_HERE = Delivery.EXACTLY_ONCE_HERE
EXACTLY_ONCE_ELSEWHERE = Delivery.EXACTLY_ONCE_ELSEWHERE
EXACTLY_ONCE_ELSEWHERE_BY_BATCH = Delivery.EXACTLY_ONCE_ELSEWHERE_BY_BATCH
ONCE_PER_EVENT = Delivery.ONCE_PER_EVENT
LOCAL_FILE = Delivery.LOCAL_FILE
CASCADE_NODE = Delivery.CASCADE_NODE
