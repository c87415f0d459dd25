create or replace function pgq._compress_event_table(i_table text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Lets long fields of an event table be compressed with lz4, where the server can; i_table is a
 * quoted name.
 *
 * Packed events are compressed a lot, and pglz takes several times as long.  Called when the table is
 * made, and for tables of an older release by rotation, which has it for itself anyhow.
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
        select attname
        from pg_attribute
        where attrelid = i_table::regclass
            and attname in ('ev_data', 'ev_extra2', 'ev_extra3')
            and attcompression <> 'l'
        order by attnum
    loop
        execute format('alter table %s alter column %I set compression lz4', i_table, v_column);
    end loop;
end;
$$;
