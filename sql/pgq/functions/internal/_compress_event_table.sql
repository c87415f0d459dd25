create or replace function pgq._compress_event_table(i_table text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Switches an event table to lz4 compression of long fields, where the server supports it.
 *
 * i_table -- the quoted name.
 *
 * Packed events are compressed often, and pglz takes several times as long.  The function is called
 * when the table is created.  For tables of an older release rotation calls it, which has the table
 * locked.  The role that rotates need not own the table, so the function runs as the owner of the
 * schema.  A table of another owner does not change.
 */
declare
    v_column text;
begin
    if not exists (
        select from pg_settings
        where name = 'default_toast_compression' and 'lz4' = any (enumvals))
    then
        return;
    end if;
    for v_column in
        select a.attname
        from pg_attribute as a
            join pg_class as c on c.oid = a.attrelid
        where c.oid = i_table::regclass
            and pg_has_role(c.relowner, 'usage')
            and a.attname in ('ev_data', 'ev_extra2', 'ev_extra3')
            and a.attcompression <> 'l'
        order by a.attnum
    loop
        execute format('alter table %s alter column %I set compression lz4', i_table::regclass, v_column);
    end loop;
end;
$$;
