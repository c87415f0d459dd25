create or replace function pgq.get_paused_consumers(
    i_queue_name text default null,
    i_consumer_name text default null,
    out queue_name text,
    out consumer_name text,
    out paused_since timestamptz,
    out reason text
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the paused consumers, with start and reason of the pause.
 *
 * A null argument (default) means all queues, or all consumers.
 */
    select q.queue_name, c.co_name, p.pc_since, left(p.pc_reason, 1000)
    from pgq.paused_consumer p
    join pgq.queue q on q.queue_id = p.pc_queue
    join pgq.consumer c on c.co_id = p.pc_consumer
    where (i_queue_name is null or q.queue_name = i_queue_name)
        and (i_consumer_name is null or c.co_name = i_consumer_name)
    order by 1, 2;
$$;
