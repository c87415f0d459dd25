create or replace function londiste.add_pending_fkey(
    i_from_table text,
    i_to_table text,
    i_fkey_name text,
    i_fkey_def text)
returns void
language sql
strict
set search_path = pg_catalog, pg_temp
as $$
    /*
     * Stores a foreign key that must be created when both tables are in sync.
     *
     * i_fkey_def -- the whole ALTER TABLE statement.  A key that is stored already does not change.
     */
    insert into londiste.pending_fkeys (from_table, to_table, fkey_name, fkey_def)
    values (londiste.make_fqname(i_from_table), londiste.make_fqname(i_to_table),
            i_fkey_name, i_fkey_def)
    on conflict (from_table, fkey_name) do nothing;
$$;
