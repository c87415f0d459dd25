"""What the server itself defers to the commit, and what hides that something is deferred."""

from __future__ import annotations

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.owners import OWNER, as_owner, make_scene, proof

#: Before release 18 of PostgreSQL what is deferred runs as the role of the session.
_LATER = """
    create function shop.later() returns void language plpgsql as $f$
    begin
        insert into vault.proof values (current_user);
    exception when insufficient_privilege then
        null;
    end $f$;
    create function shop.as_if_immutable(text) returns text language plpgsql immutable as
        'begin perform shop.later(); return $1; end';
    create function shop.at_commit() returns trigger language plpgsql as
        'begin perform shop.later(); return null; end';
    create domain shop.checked as text check (shop.as_if_immutable(value) is not null);
"""

_CONSTRAINT = "create table shop.trap (v text, exclude using {method} ({what} with =) {when});"
_TWICE = (
    "insert into shop.trap values (''a''), (''a'');"
    " delete from shop.trap where ctid = (select min(ctid) from shop.trap)"
)
_FIRES = """
    create function shop.fires() returns trigger language plpgsql as
        'begin {writes}; return null; end';
    create trigger x after insert on shop.t for each row execute function shop.fires();
    alter table shop.t enable always trigger x
"""
_LATE = "deferrable initially deferred"


def _constraint(what: str, when: str = _LATE, method: str = "btree", writes: str = _TWICE) -> str:
    return (
        _LATER
        + _CONSTRAINT.format(what=what, when=when, method=method)
        + _FIRES.format(writes=writes)
    )


#: A trigger that waits and is off by the end: the server takes what is queued for the partition.
_SWITCHED_OFF = (
    _LATER
    + f"""
    create table shop.trap (v int) partition by list (v);
    create table shop.trap1 partition of shop.trap for values in (1);
    create constraint trigger c after insert on shop.trap {_LATE}
        for each row execute function shop.at_commit();
    alter table shop.trap enable always trigger c;
    """
    + _FIRES.format(
        writes="insert into shop.trap1 values (1);"
        " execute ''alter table shop.trap disable trigger c''"
    )
)

TRAPS = {
    "function": _constraint("shop.as_if_immutable(v)"),
    "domain": _constraint("(v::shop.checked::text)"),
    "deferred by a statement": _constraint(
        "shop.as_if_immutable(v)",
        "deferrable",
        writes="execute ''set constraints all deferred''; " + _TWICE,
    ),
    "switched off": _SWITCHED_OFF,
}

#: As an application that calls such a function, and as a command does: triggers fire.
_WRITE = "select londiste._run_as_owner('shop.t'::regclass, 'insert into shop.t values (1)', null)"


@pytest.mark.parametrize("trap", TRAPS)
def test_what_waits_for_the_commit_is_refused(pgq_db16: Database, trap: str) -> None:
    make_scene(pgq_db16)
    as_owner(pgq_db16, TRAPS[trap])
    with pgq_db16.connect() as conn:
        with pytest.raises(psycopg.Error, match=r"of table shop\.trap1? is deferrable") as caught:
            conn.execute(_WRITE)
    assert caught.value.sqlstate == "LD300"
    assert proof(pgq_db16) == []
    assert pgq_db16.value("select count(*) from shop.t") == 0


def test_a_trigger_that_is_off_by_the_end_is_refused_in_a_batch_too(pgq_db16: Database) -> None:
    make_scene(pgq_db16)
    as_owner(pgq_db16, _SWITCHED_OFF)
    with pgq_db16.connect(replica=True) as conn:
        with pytest.raises(psycopg.Error, match="was changed while it waits"), conn.transaction():
            conn.execute(_WRITE)
    assert proof(pgq_db16) == []


@pytest.mark.parametrize(
    "code",
    [
        _constraint("v"),
        _constraint("lower(v)"),
        _constraint("int4range(1, length(v))", method="gist").replace("with =", "with &&"),
        _constraint("shop.as_if_immutable(v)", "not deferrable").replace("(''a''), ", ""),
        _constraint("shop.as_if_immutable(v)", writes="perform 1 from shop.trap"),
    ],
)
def test_a_constraint_without_code_stops_nothing(pgq_db16: Database, code: str) -> None:
    make_scene(pgq_db16)
    as_owner(pgq_db16, code)
    with pgq_db16.connect() as conn:
        conn.execute(_WRITE)
    assert pgq_db16.value("select count(*) from shop.t") == 1
    assert proof(pgq_db16) in ([], [OWNER])


def test_a_trigger_that_the_transaction_itself_has_made_stops_nothing(pgq_db16: Database) -> None:
    """It is for applications only, on a partition that is written as soon as it exists."""
    make_scene(pgq_db16)
    as_owner(
        pgq_db16,
        _LATER
        + "create table shop.p (id int8 primary key, at timestamptz);"
        + f" create constraint trigger c after insert on shop.p {_LATE}"
        " for each row execute function shop.at_commit();"
        " create constraint trigger d after insert on shop.p deferrable"
        " for each row execute function shop.at_commit(); alter table shop.p disable trigger d",
    )
    with pgq_db16.connect(replica=True) as conn, conn.transaction():
        conn.execute(
            "select londiste.create_partition('shop.p', 'shop.p1', '', 'at', '2026-05-06', 'year')"
        )
        conn.execute(
            "select londiste._run_as_owner('shop.p1'::regclass,"
            " 'insert into shop.p1 values (1, ''2026-05-06'')', null)"
        )
    triggers = "from pg_trigger where tgrelid = 'shop.p1'::regclass"
    found = pgq_db16.execute(f"select tgname, tgenabled::text {triggers} order by 1")
    assert found == [("c", "O"), ("d", "D")]
    assert pgq_db16.value("select count(*) from shop.p") == 1
