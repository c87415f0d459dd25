create or replace function londiste.table_info_trigger()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Drops the capture and deny triggers of a table whose registration is deleted.
 *
 * It also fires when the whole node is dropped.
 */
begin
    if old.local then
        perform londiste.drop_table_triggers(old.queue_name, old.table_name);
    end if;
    return old;
end;
$$;
