"""``queue mover``, ``queue splitter``, ``queue simple-consumer``: ready-made consumers."""

from __future__ import annotations

from londiste.cli.consumer_cli import command
from londiste.tools.queue_mover import QueueMover
from londiste.tools.queue_splitter import QueueSplitter
from londiste.tools.simple_consumer import KINDS, SimpleConsumer

_SOURCE = {"--queue": "queue_name", "--consumer": "consumer_name", "--target-db": "target_db"}

mover = command(QueueMover, name="mover", keys={**_SOURCE, "--target-queue": "dst_queue_name"})
splitter = command(QueueSplitter, name="splitter", keys={**_SOURCE, "--queue-field": "queue_field"})
simple_consumer = command(
    SimpleConsumer,
    name="simple-consumer",
    keys={**_SOURCE, "--query": "dst_query"},
    variants=KINDS,
)
