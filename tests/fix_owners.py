"""Tables that belong to a role which the worker must not trust."""

from __future__ import annotations

from tests.fix_cluster import Database

OWNER = "londiste_test_owner"

_ROLE = f"""
    do $$
    begin
        create role {OWNER} nologin;
    exception
        when duplicate_object or unique_violation then
            null;
    end;
    $$
"""

#: Each new table belongs to the role, whoever creates it.
_GIVE_AWAY = f"""
    create function public.give_away() returns event_trigger language plpgsql as $$
    declare
        v_table text;
    begin
        for v_table in
            select object_identity from pg_catalog.pg_event_trigger_ddl_commands()
            where object_type = 'table' and schema_name = 'public'
        loop
            execute 'alter table ' || v_table || ' owner to {OWNER}';
        end loop;
    end;
    $$;
    create event trigger give_away on ddl_command_end when tag in ('CREATE TABLE')
        execute function public.give_away();
"""


def make_owner(database: Database) -> None:
    """The role; the server keeps it for the next test."""
    database.execute(_ROLE)


def give_tables_away(database: Database) -> None:
    """From now on new tables of schema public belong to the role."""
    make_owner(database)
    database.execute(_GIVE_AWAY)
