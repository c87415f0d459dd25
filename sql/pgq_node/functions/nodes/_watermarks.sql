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
    select max(t.tick_id) into queue_top
    from pgq.queue q join pgq.tick t on t.tick_queue = q.queue_id
    where q.queue_name = i_queue_name;

    select coalesce(min(i.last_tick) filter (where i.consumer_name <> '.global_watermark'), queue_top),
           min(i.last_tick) filter (where i.consumer_name = '.global_watermark')
        into local_watermark, global_watermark
    from pgq.get_consumer_info(i_queue_name) i;
end;
$$;
