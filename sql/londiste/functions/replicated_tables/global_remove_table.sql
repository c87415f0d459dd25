create or replace function londiste.global_remove_table(
    i_queue_name text,
    i_table_name text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Removes a table from the queue.  A local table becomes an ordinary table again.
 *
 * Sequences stay below the root, which tells of each that it removes.
 *
 * ret_code -- 200 removed; 400 unknown table.
 */
declare
    v_table text := londiste.make_fqname(i_table_name);
begin
    if exists (
        select from pgq_node.node_info n
        where n.queue_name = i_queue_name and n.node_type = 'root')
    then
        perform londiste._remove_column_seqs(i_queue_name, v_table, '{}'::text[]);
    end if;
    perform londiste._detach_table(i_queue_name, v_table);
    delete from londiste.table_info
    where queue_name = i_queue_name and table_name = v_table;
    if found then
        select 200, 'Table removed: ' || v_table into ret_code, ret_note;
    else
        select 400, 'Table not found: ' || coalesce(v_table, 'NULL') into ret_code, ret_note;
    end if;
end;
$$;
