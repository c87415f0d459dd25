create or replace function londiste._require_node(i_queue_name text)
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Raises LD003 when this database is no node of the queue.
 */
begin
    if not exists (select from pgq_node.node_info n where n.queue_name = i_queue_name) then
        raise exception using
            errcode = 'LD003',
            message = format('database has no node of queue %s', coalesce(i_queue_name, 'NULL')),
            detail = format('database %s', current_database()),
            hint = 'list its nodes: select queue_name, node_name from pgq_node.node_info';
    end if;
end;
$$;
