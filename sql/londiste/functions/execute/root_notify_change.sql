create or replace function londiste.root_notify_change(
    i_queue_name text,
    i_ev_type text,
    i_ev_data text)
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Sends a message about tables to all nodes.  Returns 1.
 *
 * Raises LD101 on a node that is not the root, LD001 for an unknown queue.
 */
begin
    if not pgq_node.is_root_node(i_queue_name) then
        raise exception using
            errcode = 'LD101',
            message = 'only root node can send events',
            detail = format('queue %s has another type of node in this database', i_queue_name),
            hint = 'run the command on the root: londiste status shows which node that is';
    end if;
    perform pgq.insert_event(i_queue_name, i_ev_type, i_ev_data);
    return 1;
end;
$$;
