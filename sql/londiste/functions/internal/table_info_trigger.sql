create or replace function londiste.table_info_trigger()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Drops the capture and deny triggers of a table whose registration is deleted.
 *
 * It also fires when the whole node is dropped.  It runs with the rights of pgq_node.drop_node(), so
 * it cannot restore what a copy has dropped: such a table is refused.
 */
begin
    if old.local and old.dropped_ddl is not null then
        raise exception 'table % is being copied: without its registration its indexes are lost',
            old.table_name
            using errcode = '55000',
            hint = format('first: select * from londiste.release_tables(%L)', old.queue_name);
    end if;
    if old.local then
        perform londiste.drop_table_triggers(old.queue_name, old.table_name, true);
    end if;
    return old;
end;
$$;
