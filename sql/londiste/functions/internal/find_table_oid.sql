create or replace function londiste.find_table_oid(tbl text)
returns oid
language sql
stable
strict
set search_path = pg_catalog, pg_temp
as $$
    /* Returns the oid of a table, plain or partitioned; NULL when there is none. */
    select coalesce(londiste.find_rel_oid(tbl, 'r'), londiste.find_rel_oid(tbl, 'p'));
$$;
