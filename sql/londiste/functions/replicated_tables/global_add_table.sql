create or replace function londiste.global_add_table(
    i_queue_name text,
    i_table_name text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Registers a table in the queue.  It does not make the table local on this node.
 *
 * A leaf that merges into a combined queue registers the table in that queue as well.
 *
 * ret_code -- 200 registered, now or earlier; 400 this database is no node of the queue.
 */
declare
    v_table text := londiste.make_fqname(i_table_name);
    v_combined text;
begin
    select n.combined_queue into v_combined
    from pgq_node.node_info n
    where n.queue_name = i_queue_name;
    if not found then
        select 400, 'No such queue: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    if v_combined is not null then
        perform londiste.global_add_table(v_combined, v_table);
    end if;
    insert into londiste.table_info (queue_name, table_name)
    values (i_queue_name, v_table)
    on conflict (queue_name, table_name) do nothing;
    if found then
        select 200, 'Table added: ' || v_table into ret_code, ret_note;
    else
        select 200, 'Table already added: ' || v_table into ret_code, ret_note;
    end if;
end;
$$;
