create or replace function londiste.find_table_oid(tbl text)
returns oid
language sql
stable
strict
set search_path = pg_catalog, pg_temp
as $$
    /* Oid of a plain table; NULL when there is none. */
    select londiste.find_rel_oid(tbl, 'r');
$$;
