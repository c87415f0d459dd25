create or replace function londiste.drop_table_fkey(i_from_table text, i_fkey_name text)
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Drops a foreign key and stores how to restore it.  Returns 1, or 0 when the key does not exist.
 *
 * A key that is being restored, and is not validated yet, is stored as it was before.
 */
declare
    v_key londiste.pending_fkeys;
begin
    select * into v_key
    from londiste.find_table_fkeys(londiste.make_fqname(i_from_table)) f
    where f.from_table = londiste.make_fqname(i_from_table) and f.fkey_name = i_fkey_name;
    if not found then
        return 0;
    end if;

    insert into londiste.pending_fkeys as p (from_table, to_table, fkey_name, fkey_def)
    values (v_key.from_table, v_key.to_table, v_key.fkey_name, v_key.fkey_def)
    on conflict (from_table, fkey_name) do update
        set to_table = excluded.to_table,
            fkey_def = case when excluded.fkey_def = p.fkey_def || ' NOT VALID'
                then p.fkey_def else excluded.fkey_def end;
    execute format('alter table only %s drop constraint %I',
        londiste.quote_fqname(v_key.from_table), v_key.fkey_name);
    return 1;
end;
$$;
