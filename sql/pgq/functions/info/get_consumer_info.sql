create or replace function pgq.get_consumer_info(
    i_queue_name text,
    i_consumer_name text,
    out queue_name text,
    out consumer_name text,
    out lag interval,
    out last_seen interval,
    out last_tick int8,
    out current_batch int8,
    out next_tick int8,
    out pending_events int8
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the positions of consumers, sorted by queue and name; a null argument means all.
 *
 * lag -- age of the tick up to which the consumer has finished.
 * last_seen -- time since the consumer last opened or finished a batch.
 * pending_events -- upper limit of the number of events between its position and the newest tick.
 */
begin
    return query
    select
        q.queue_name,
        c.co_name,
        now() - last.tick_time,
        now() - s.sub_active,
        s.sub_last_tick,
        s.sub_batch,
        s.sub_next_tick,
        newest.tick_event_seq - last.tick_event_seq
    from pgq.queue q
    join pgq.subscription s on s.sub_queue = q.queue_id
    join pgq.consumer c on c.co_id = s.sub_consumer
    left join lateral (
        select t.tick_time, t.tick_event_seq
        from pgq.tick t
        where t.tick_queue = s.sub_queue and t.tick_id = s.sub_last_tick
        limit 1
    ) as last on true
    left join lateral (
        select t.tick_event_seq
        from pgq.tick t
        where t.tick_queue = s.sub_queue
        order by t.tick_id desc
        limit 1
    ) as newest on true
    where (i_queue_name is null or q.queue_name = i_queue_name)
        and (i_consumer_name is null or c.co_name = i_consumer_name)
    order by q.queue_name, c.co_name;
end;
$$;

create or replace function pgq.get_consumer_info(
    i_queue_name text,
    out queue_name text,
    out consumer_name text,
    out lag interval,
    out last_seen interval,
    out last_tick int8,
    out current_batch int8,
    out next_tick int8,
    out pending_events int8
)
returns setof record
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the positions of the consumers of one queue; null: of all queues.
 */
    select * from pgq.get_consumer_info(i_queue_name, null::text);
$$;

create or replace function pgq.get_consumer_info(
    out queue_name text,
    out consumer_name text,
    out lag interval,
    out last_seen interval,
    out last_tick int8,
    out current_batch int8,
    out next_tick int8,
    out pending_events int8
)
returns setof record
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the positions of all consumers of all queues.
 */
    select * from pgq.get_consumer_info(null::text, null::text);
$$;
