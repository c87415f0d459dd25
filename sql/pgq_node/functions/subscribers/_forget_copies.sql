create or replace function pgq_node._forget_copies(i_queue_name text, i_node_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Unregisters the consumers of a subscriber's copies before the subscriber is deleted.
 *
 * Their names are the name of its worker, .copy. and a table.  A failed node cannot unregister them,
 * and they would keep the events of the queue.
 */
declare
    v_consumer text;
begin
    for v_consumer in
        select c.co_name
        from pgq_node.subscriber_info i
        join pgq.queue q on q.queue_name = i.queue_name
        join pgq.subscription s on s.sub_queue = q.queue_id
        join pgq.consumer c on c.co_id = s.sub_consumer
        where i.queue_name = i_queue_name and i.subscriber_node = i_node_name
            and starts_with(c.co_name, i.worker_name || '.copy.')
    loop
        perform pgq.unregister_consumer(i_queue_name, v_consumer);
    end loop;
end;
$$;
