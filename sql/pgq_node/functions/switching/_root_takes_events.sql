create or replace function pgq_node._root_takes_events(i_queue_name text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Whether this node is a root that takes events, and takes them until this transaction ends: whoever
 * closes it waits for that.
 *
 * For what the root's worker has to say in the queue.  Its session may write into a queue that is
 * closed, and an event behind the last tick would be on this node only, and on those that read
 * from it.
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
