/*
 * How far behind the last change positions are, by this server's clock; ticks that are gone have no
 * row.  Ages in seconds; they are negative after the clock was set back.
 *
 * Per tick: when it was created; its age; ticks and events after it; the first tick after it that
 * has events, and its age; the age of the newest tick; the longest that an event waits for one, in
 * seconds; and the number of events of the queue before it.
 *
 * %(queue)s -- the queue; %(ticks)s -- their ids.
 */
select
    t.tick_id,
    t.tick_time,
    extract(epoch from pg_catalog.clock_timestamp() - t.tick_time)::float8,
    newest.tick_id - t.tick_id,
    greatest(taken.last - t.tick_event_seq, 0),
    missing.tick_id,
    extract(epoch from pg_catalog.clock_timestamp() - missing.tick_time)::float8,
    extract(epoch from pg_catalog.clock_timestamp() - newest.tick_time)::float8,
    extract(epoch from q.queue_ticker_max_lag)::float8,
    t.tick_event_seq
from pgq.queue q
join pgq.tick t on t.tick_queue = q.queue_id
cross join lateral (
    select coalesce(pg_sequence_last_value(q.queue_event_seq::regclass), 0) as last
) as taken
cross join lateral (
    select n.tick_id, n.tick_time, n.tick_event_seq
    from pgq.tick n
    where n.tick_queue = q.queue_id
    order by n.tick_id desc
    limit 1
) as newest
left join lateral (
    select m.tick_id, m.tick_time
    from pgq.tick m
    where m.tick_queue = q.queue_id
        and m.tick_id > t.tick_id
        and m.tick_event_seq > t.tick_event_seq
    order by m.tick_id
    limit 1
) as missing on newest.tick_event_seq > t.tick_event_seq
where q.queue_name = %(queue)s
    and t.tick_id = any (%(ticks)s::int8[])
