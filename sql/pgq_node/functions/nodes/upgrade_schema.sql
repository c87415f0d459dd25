create or replace function pgq_node.upgrade_schema()
returns int4
language sql
set search_path = pg_catalog, pg_temp
as $$
    /*
     * Returns the number of changes made: always 0.  The installer's upgrade files change tables.
     *
     * The function remains for programs that call it after an installation.
     */
    select 0;
$$;
