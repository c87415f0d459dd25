create or replace function pgq_node.is_leaf_node(i_queue_name text)
returns boolean
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether this database is a leaf of the queue.  Raises LD001 for an unknown queue.
 */
declare
    v_answer boolean;
begin
    select n.node_type = 'leaf' into v_answer
    from pgq_node.node_info n
    where n.queue_name = i_queue_name;
    if not found then
        raise exception using
            errcode = 'LD001',
            message = format('queue does not exist: %s', i_queue_name),
            detail = 'this database is not a node of that queue',
            hint = 'list the queues: select queue_name from pgq_node.node_info';
    end if;
    return v_answer;
end;
$$;
