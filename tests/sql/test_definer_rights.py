"""What runs with its owner's rights cannot be led astray by its caller, in every schema."""

from __future__ import annotations

from tests.fix_cluster import Database

SCHEMAS = ["pgq", "pgq_node", "pgq_coop", "pgq_ext", "londiste"]


def test_every_definer_function_pins_its_search_path(pgq_db: Database) -> None:
    loose = pgq_db.execute(
        "select oid::regprocedure::text from pg_proc"
        " where pronamespace = any(%s::regnamespace[]) and prosecdef"
        " and not coalesce('search_path=pg_catalog, pg_temp' = any(proconfig), false)",
        SCHEMAS,
    )
    assert loose == []
    assert pgq_db.value("select count(*) > 20 from pg_proc where prosecdef")


def test_a_generated_capture_function_pins_it_too_and_belongs_to_nobody_else(
    pgq_db: Database,
) -> None:
    pgq_db.execute("create table t (id int primary key)")
    pgq_db.execute("select pgq.create_queue('q'); select londiste.create_capture('q', 'public.t')")
    found = pgq_db.execute(
        "select p.prosecdef, 'search_path=pg_catalog, pg_temp' = any(p.proconfig),"
        " has_function_privilege('public', p.oid, 'execute')"
        " from pg_trigger t join pg_proc p on p.oid = t.tgfoid"
        " where t.tgrelid = 'public.t'::regclass"
    )
    assert set(found) == {(True, True, False)}


def test_no_definer_function_that_changes_state_is_open_to_everybody(pgq_db: Database) -> None:
    opened = pgq_db.execute(
        "select oid::regprocedure::text from pg_proc"
        " where pronamespace = any(%s::regnamespace[]) and prosecdef and provolatile = 'v'"
        " and has_function_privilege('public', oid, 'execute')",
        SCHEMAS,
    )
    allowed = {"pgq.get_consumer_info()", "pgq.get_consumer_info(text)"}
    allowed.add("pgq.get_consumer_info(text,text)")
    assert {name for (name,) in opened} <= allowed
