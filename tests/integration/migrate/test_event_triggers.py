"""Event triggers that write rows: an audit of DDL."""

from __future__ import annotations

import json
from collections.abc import Callable

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_branch, make_root
from tests.integration.migrate.test_schema_copy import move

AUDIT = """
create table log (id int generated always as identity primary key, tag text);
create function noted() returns event_trigger language plpgsql
    as 'begin insert into public.log (tag) values (tg_tag); end';
create event trigger audit on ddl_command_end execute function noted();
"""


def test_an_audit_of_ddl_does_not_stop_the_start(
    database16: Database, new_database: Callable[..., Database]
) -> None:
    new = new_database()
    database16.execute(AUDIT)
    found = json.loads(move(database16, new, "check", "--json").stdout)["findings"]
    (audit,) = (one for one in found if one["kind"] == "event-triggers")
    # The new server may switch them off for the session.
    assert audit["side"] == "old" and 'alter event trigger "audit" disable' in audit["do"]
    done = move(database16, new, "start", "--schema", "pg_dump", "--no-daemons")
    assert done.exit_code == 0, done.output
    assert new.value("select count(*) from pg_event_trigger where evtenabled = 'O'") == 1
    assert new.value("select count(*) from log") == 0
    done = move(database16, new, "finish", "--abandon")
    assert done.exit_code == 0, done.output


def test_nobody_is_told_to_open_the_queue_of_a_branch(
    pgq_db: Database, new_database: Callable[..., Database]
) -> None:
    pgq_db.execute("select pgq.create_queue('plain')")
    pgq_db.execute("select pgq.set_queue_config('plain', 'disable_insert', 'true')")
    make_root(pgq_db)
    branch = new_database(pgq=True)
    make_branch(branch)
    hints = []
    for database, queue in ((pgq_db, "plain"), (branch, "q")):
        with pytest.raises(psycopg.Error) as caught:
            database.execute("select pgq.insert_event(%s, 'I', 'x')", queue)
        hints.append(caught.value.diag.message_hint or "")
    assert "set_queue_config('plain', 'disable_insert', 'false')" in hints[0]
    assert hints[1].startswith("write on the root node") and "set_queue_config" not in hints[1]
