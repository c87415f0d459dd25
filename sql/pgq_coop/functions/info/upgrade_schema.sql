create or replace function pgq_coop.upgrade_schema()
returns int4
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Number of changes made: always 0.  Tables are changed by the installer's upgrade files; the
 * function stays for programs that call it after an installation.
 */
    select 0;
$$;
