create or replace function pgq._compress_event_table(i_table text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Lets long fields of an event table be compressed with lz4, where the server can; i_table is a
 * quoted name.
 *
 * Packed events are compressed a lot, and pglz takes several times as long.  Called when the table is
 * made, and for tables of an older release by rotation, which has it for itself anyhow.  Whoever
 * rotates need not own the table, so it runs as the owner of the schema; a table that belongs to
 * somebody else stays as it is.
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
