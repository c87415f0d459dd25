create or replace function londiste.get_table_pending_fkeys(i_table_name text)
returns setof londiste.pending_fkeys
language sql
stable
strict
set search_path = pg_catalog, pg_temp
as $$
    /* Returns the foreign keys from or to a table that wait to be restored. */
    select f.*
    from londiste.pending_fkeys f
    where londiste.make_fqname(i_table_name) in (f.from_table, f.to_table)
    order by f.from_table, f.fkey_name;
$$;
