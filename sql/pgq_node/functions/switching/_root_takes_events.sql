create or replace function pgq_node._root_takes_events(i_queue_name text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether this node is a root that accepts events, and locks it in that state.
 *
 * A session that closes the root waits for the end of this transaction.
 *
 * For messages of the root's worker.  Its session may write into a closed queue.  An event after
 * the last tick would exist only on this node, and on nodes that read from it.
 */
begin
    perform 1
    from pgq_node.node_info n
    where n.queue_name = i_queue_name and n.node_type = 'root'
    for share;
    return found and exists (
        select 1 from pgq.queue q
        where q.queue_name = i_queue_name and not q.queue_disable_insert
    );
end;
$$;
