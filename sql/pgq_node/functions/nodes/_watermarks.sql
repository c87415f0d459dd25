create or replace function pgq_node._watermarks(
    i_queue_name text,
    out queue_top int8,
    out global_watermark int8,
    out local_watermark int8)
returns record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * How far the queue of a root or branch has got: its newest tick, what all nodes have finished as far as
 * this one knows, and what this node and everything that reads from it have finished.
 */
begin
    select (select max(t.tick_id) from pgq.tick t where t.tick_queue = q.queue_id),
           w.of_others, w.of_all_nodes
        into queue_top, local_watermark, global_watermark
    from pgq.queue q
        left join lateral (
            select min(s.sub_last_tick) filter (where c.co_name <> '.global_watermark') as of_others,
                   min(s.sub_last_tick) filter (where c.co_name = '.global_watermark') as of_all_nodes
            from pgq.subscription s join pgq.consumer c on c.co_id = s.sub_consumer
            where s.sub_queue = q.queue_id
        ) w on true
    where q.queue_name = i_queue_name;
    local_watermark := coalesce(local_watermark, queue_top);
end;
$$;
