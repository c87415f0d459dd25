create or replace function londiste.accept_rewrite(
    i_queue_name text,
    i_table_name text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Removes a table from rewritten_tables(), replaced_tables() and detached_partitions(): its rows were compared, or copied to the other nodes.
 *
 * ret_code -- 200 removed; 404 no such table in sync.
 */
declare
    v_table text := londiste.make_fqname(i_table_name);
begin
    perform from londiste.table_info t
    where t.queue_name = i_queue_name and t.table_name = v_table and t.local
        and t.merge_state = 'ok';
    if not found then
        select 404, 'No table in sync: ' || coalesce(v_table, 'NULL') into ret_code, ret_note;
        return;
    end if;
    perform londiste._note_version(i_queue_name, v_table);
    select 200, 'Accepted: ' || v_table into ret_code, ret_note;
end;
$$;
