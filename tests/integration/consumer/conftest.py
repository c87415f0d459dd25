"""The queue of the tests of consumers, and the table that their effects go into."""

from __future__ import annotations

import pytest

import londiste
from londiste.pgq import queues
from tests.fixtures.cluster import Database
from tests.support.consumer_steps import QUEUE


@pytest.fixture
def db(pgq_db: Database) -> Database:
    pgq_db.execute("create table effects (ev_id int8, data text)")
    with londiste.Producer(pgq_db.dsn, QUEUE):
        queues.create_queue(pgq_db.connect(), QUEUE)
    return pgq_db
