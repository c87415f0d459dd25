"""``dispatch``: the table dispatcher, a consumer that is ready made."""

from __future__ import annotations

from londiste.cli.program import command
from londiste.tools.dispatch.program import Dispatcher

dispatch = command(
    Dispatcher,
    name="dispatch",
    keys={
        "--queue": "queue_name",
        "--consumer": "consumer_name",
        "--target-db": "target_db",
        "--handler": "handler",
        "--engine": "engine",
    },
)
