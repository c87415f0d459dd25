create or replace function pgq.get_consumer_kinds(
    i_queue_name text default null,
    out queue_name text,
    out consumer_name text,
    out kind text
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the kinds of programs that consumers have reported; null means all queues.
 */
    select q.queue_name, c.co_name, k.ck_kind
    from pgq.consumer_kind k
    join pgq.queue q on q.queue_id = k.ck_queue
    join pgq.consumer c on c.co_id = k.ck_consumer
    where i_queue_name is null or q.queue_name = i_queue_name
    order by 1, 2;
$$;
