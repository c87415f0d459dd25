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
     * Remembers a foreign key that is to be made when both tables are in step.
     *
     * i_fkey_def -- the whole ALTER TABLE statement.  One that is remembered already stays.
     */
    insert into londiste.pending_fkeys (from_table, to_table, fkey_name, fkey_def)
    values (londiste.make_fqname(i_from_table), londiste.make_fqname(i_to_table),
            i_fkey_name, i_fkey_def)
    on conflict (from_table, fkey_name) do nothing;
$$;
