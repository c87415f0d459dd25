create or replace function pgq_node.get_subscriber_info(
    i_queue_name text,
    out node_name text,
    out worker_name text,
    out node_watermark int8)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
    /* Returns the nodes that read from this node, by name, with the watermark that they reported. */
    select s.subscriber_node, s.worker_name, t.sub_last_tick
    from pgq_node.subscriber_info s
        left join pgq.queue q on q.queue_name = s.queue_name
        left join pgq.consumer c on c.co_name = s.watermark_name
        left join pgq.subscription t
            on t.sub_queue = q.queue_id and t.sub_consumer = c.co_id
    where s.queue_name = i_queue_name
    order by s.subscriber_node;
$$;
