"""Simple consumer: runs a statement of the user for every row change, or every event.

    dst_query = "select deposit(%(account)s, %(amount)s, %(pgq.ev_id)s)"

Columns of the row are parameters by their names; so are ``pgq.ev_id``, ``pgq.ev_time``,
``pgq.ev_type``, ``pgq.ev_data``, ``pgq.ev_extra1`` to ``4``, ``pgq.ev_txid``, ``pgq.ev_retry`` and
``pgq.tick_id``.  Values are parameters, never text of the statement.  In an INI file a ``%`` is
written twice.
"""

from __future__ import annotations

from typing import Any, ClassVar

import psycopg
from pydantic import Field, field_validator

from londiste.changes.decode import decode, singles
from londiste.changes.kinds import is_change, is_truncate
from londiste.changes.types import RowChange
from londiste.consumer import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE_ELSEWHERE,
    LOCAL_FILE,
    Consumer,
    ConsumerSettings,
    Context,
    Delivery,
    Event,
)
from londiste.error_values import Values, shown
from londiste.errors import EventError, LondisteError
from londiste.wording import bounded, exception_text


class SimpleSettings(ConsumerSettings):
    """The simple consumer."""

    sections: ClassVar[tuple[str, ...]] = (
        "simple_consumer",
        "simple_consumer3",
        "simple_serial_consumer",
        "simple_local_consumer3",
    )

    dst_query: str = Field(
        description="SQL statement for each event, with %(column)s for values (required)."
    )
    all_events: bool = Field(
        False,
        description="Run the statement also for events that are not row changes (default:"
        " skip them).",
    )

    @field_validator("dst_query")
    @classmethod
    def _some_query(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("the statement is empty")
        return value


class SimpleConsumer(Consumer):
    """Runs a statement for every row change of a queue, at least once."""

    delivery: ClassVar[Delivery] = AT_LEAST_ONCE
    settings_class = SimpleSettings
    settings: SimpleSettings

    def process_event(self, event: Event, ctx: Context) -> None:
        """Runs the statement for every row of the event, if it is selected."""
        for single in singles(event):
            self._run(single, ctx)

    def _run(self, event: Event, ctx: Context) -> None:
        parameters = self._parameters(event, ctx)
        if parameters is None:
            ctx.stats["skipped"] += 1
            return
        try:
            # The statement is the user's own, out of the settings.
            ctx.db.execute(self.settings.dst_query.encode(), parameters)
        except (psycopg.ProgrammingError, TypeError) as error:
            raise self._lacks(event, ctx, parameters, error) from error

    def _parameters(self, event: Event, ctx: Context) -> dict[str, Any] | None:
        """The values for the statement; None when the event is skipped."""
        values: dict[str, Any] = {}
        change = decode(event) if is_row(event) else None
        if isinstance(change, RowChange):
            values.update(change.image)
        elif not self.settings.all_events:
            return None
        values |= {f"pgq.ev_{field}": value for field, value in event._asdict().items()}
        values["pgq.tick_id"] = ctx.batch.tick_id
        return values

    def _lacks(
        self, event: Event, ctx: Context, parameters: dict[str, Any], error: Exception
    ) -> LondisteError:
        columns = ", ".join(name for name in parameters if not name.startswith("pgq."))
        # Functions that the statement calls may quote values of rows.
        said = (
            shown(error, Values.APART, self.settings.dst_query).message
            if isinstance(error, psycopg.Error)
            else bounded(exception_text(error))
        )
        return EventError(
            f"event {event.id} of queue {ctx.batch.queue}: dst_query: {said}",
            detail=f"columns of the row: {columns or 'none'}; table {event.extra1}",
            hint="correct dst_query: one statement with %(column)s for values and %% for a"
            " percent sign; or select tables that have the column: table_filter",
            queue=ctx.batch.queue,
            batch_id=ctx.batch.id,
            event_id=event.id,
        )


class SerialConsumer(SimpleConsumer):
    """Runs a statement for every row change of a queue, exactly once."""

    delivery: ClassVar[Delivery] = EXACTLY_ONCE_ELSEWHERE


class LocalConsumer(SimpleConsumer):
    """Runs a statement for every row change of a queue; the position is in a local file."""

    delivery: ClassVar[Delivery] = LOCAL_FILE


#: What ``--delivery`` chooses from.
KINDS: dict[str, type[SimpleConsumer]] = {
    "at-least-once": SimpleConsumer,
    "exactly-once": SerialConsumer,
    "local-file": LocalConsumer,
}


def is_row(event: Event) -> bool:
    """Whether the type is that of a row change, in one of the formats of the triggers."""
    return is_change(event.type) and not is_truncate(event.type)
