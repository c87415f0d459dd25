create or replace function pgq.get_delayed_info(
    i_queue_name text,
    out queue_name text,
    out delayed_events int8,
    out overdue_events int8,
    out next_send timestamptz,
    out is_held boolean
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the number of delayed events, per queue; null means all queues.
 *
 * overdue_events -- number of events whose time is past.  They wait for the ticker, or until the
 *     queue accepts events.
 * next_send -- time of the next delayed event.
 * is_held -- true: the queue accepts no events, so the events wait until it does.
 */
    select q.queue_name, d.number, d.overdue, d.first, q.queue_disable_insert
    from pgq.queue q
    cross join lateral (
        select
            count(*) as number,
            count(*) filter (where w.ev_send_at <= now()) as overdue,
            min(w.ev_send_at) as first
        from pgq.delayed_event w
        where w.ev_queue = q.queue_id
    ) as d
    where i_queue_name is null or q.queue_name = i_queue_name
    order by q.queue_name;
$$;
