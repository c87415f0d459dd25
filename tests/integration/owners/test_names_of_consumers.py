"""A schema of another role in front of pg_catalog: consumers run none of its code."""

from __future__ import annotations

from pathlib import Path

import pytest

import londiste
from londiste import Delivery, Event
from londiste.pgq import queues
from tests.fixtures.cluster import Database
from tests.support.consumer_steps import ALL, QUEUE, Storing, effects, make, send

#: Operators, functions and types of the server that another role has, too; each raises an error.
_TRAPS = """
create schema app;
create function app.trap() returns boolean language plpgsql as
    $$ begin raise exception 'code of another role'; end $$;
do $$
declare
    kind text;
    sign text;
begin
    foreach kind in array array['text', 'int4', 'int8', 'oid', 'name', 'bool'] loop
        execute format('create function app.both(pg_catalog.%1$I, pg_catalog.%1$I) returns bool'
            ' language sql as ''select app.trap()''', kind);
        foreach sign in array array['=', '<>', '<', '>', '||', '|'] loop
            execute format('create operator app.%s (function = app.both,'
                ' leftarg = pg_catalog.%I, rightarg = pg_catalog.%2$I)', sign, kind);
        end loop;
    end loop;
    foreach kind in array array['text', 'int4', 'int8', 'oid', 'name', 'bool', 'jsonb'] loop
        execute format('create domain app.%1$I as pg_catalog.%1$I check (app.trap())', kind);
    end loop;
end $$;
create function app.shift(bigint, integer) returns bigint language sql
    as 'select app.trap()::pg_catalog.int4::pg_catalog.int8';
create operator app.<< (function = app.shift, leftarg = bigint, rightarg = integer);
create function app.current_database() returns pg_catalog.name language sql
    as $$ select app.trap()::pg_catalog.text::pg_catalog.name $$;
create function app.host(inet) returns pg_catalog.text language sql
    as $$ select app.trap()::pg_catalog.text $$;
"""


@pytest.fixture
def db(pgq_db: Database) -> Database:
    pgq_db.execute("create table effects (ev_id int8, data text)")
    queues.create_queue(pgq_db.connect(), QUEUE)
    return pgq_db


@pytest.mark.parametrize("delivery", ALL)
def test_statements_of_a_consumer_use_the_names_of_the_server(
    db: Database, delivery: Delivery, tmp_path: Path
) -> None:
    def fail(event: Event) -> None:
        if event.data == "b" and delivery.may_retry:
            raise londiste.Dead("no")

    consumer = make(
        db, delivery, tmp_path, type("Storing", (Storing,), {"fail": staticmethod(fail)})
    )
    consumer.register()
    send(db, "a", "b")
    db.execute(_TRAPS)
    db.execute(f"alter database {db.name} set search_path = app, pg_catalog, public")
    consumer.run_once()
    db.execute(f"alter database {db.name} reset search_path")
    assert effects(db)[0] == "a"
    letters = db.value("select pgq.failed_event_count('q', 'storing')")
    assert letters == (1 if delivery.may_retry else 0)
