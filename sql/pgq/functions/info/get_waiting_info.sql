create or replace function pgq.get_waiting_info(
    i_queue_name text,
    i_consumer_name text,
    out queue_name text,
    out consumer_name text,
    out retry_events int8,
    out next_retry timestamptz,
    out failed_events int8,
    out last_failed timestamptz
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the number of events that wait outside the queue for a consumer, by queue and name.
 *
 * A null argument means all queues, or all consumers.
 *
 * retry_events, next_retry -- number of events to be delivered again; time of the first of them.
 * failed_events, last_failed -- number of failed events; time of the last failure.
 *
 * Cooperative consumers share both, so only their main consumer has a row.
 */
    select q.queue_name, c.co_name, r.number, r.first, f.number, f.last
    from pgq.queue q
    join pgq.subscription s on s.sub_queue = q.queue_id
    join pgq.consumer c on c.co_id = s.sub_consumer
    cross join lateral (
        select count(*) as number, min(w.ev_retry_after) as first
        from pgq.retry_queue w
        where w.ev_owner = s.sub_id
    ) as r
    cross join lateral (
        select count(*) as number, max(w.ev_failed_time) as last
        from pgq.failed_queue w
        where w.ev_owner = s.sub_id
    ) as f
    where (i_queue_name is null or q.queue_name = i_queue_name)
        and (i_consumer_name is null or c.co_name = i_consumer_name)
        and (
            (s.sub_last_tick is null) <> (s.sub_next_tick is null)
            or not exists (
                select 1
                from pgq.registration other
                where other.sub_id = s.sub_id and other.sub_consumer <> s.sub_consumer
            )
        )
    order by q.queue_name, c.co_name;
$$;
