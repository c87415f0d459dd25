"""The consumer that scenarios run as a process of its own and kill.

``DELIVERY`` in the environment names the contract.  Every event is a row in ``effects``, written
through the session of the contract, and a line in the file ``SIDE_EFFECTS``, which no transaction
takes back.
"""

from __future__ import annotations

import os
from pathlib import Path

from londiste import CascadedConsumer, Consumer, Context, Dead, Delivery, Event, Retry


def consumer(contract: Delivery, side_effects: Path) -> type[Consumer]:
    """A consumer that writes down what it gets."""
    base = CascadedConsumer if contract is Delivery.CASCADE_NODE else Consumer

    class Killed(base):  # type: ignore[misc, valid-type]
        queue = "q"
        name = "killed"
        delivery = contract

        def process_event(self, event: Event, ctx: Context) -> None:
            with side_effects.open("a", encoding="utf-8") as file:
                file.write(f"{event.data} {event.retry or 0}\n")
            ctx.db.execute("insert into effects values (%s, %s)", [event.data, event.retry or 0])
            if event.data == "again" and event.retry is None and contract.may_retry:
                raise Retry(0)
            if event.data == "dead" and contract.may_bury:
                raise Dead("as told")

    return Killed


if __name__ == "__main__":
    consumer(Delivery[os.environ["DELIVERY"]], Path(os.environ["SIDE_EFFECTS"])).main()
