create or replace function pgq.get_queue_info(
    i_queue_name text,
    out queue_name text,
    out queue_ntables int4,
    out queue_cur_table int4,
    out queue_rotation_period interval,
    out queue_switch_time timestamptz,
    out queue_external_ticker boolean,
    out queue_ticker_paused boolean,
    out queue_ticker_max_count int4,
    out queue_ticker_max_lag interval,
    out queue_ticker_idle_period interval,
    out ticker_lag interval,
    out ev_per_sec float8,
    out ev_new int8,
    out last_tick_id int8
)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns settings and state of one queue; null: of all queues.  No row for an unknown queue.
 *
 * ticker_lag -- time since the newest tick.
 * ev_per_sec -- events per second over the last 20 ticks; null when no time passed between them,
 * or the clock was set back.
 * ev_new -- number of ids (about the number of events) since the newest tick.
 */
begin
    return query
    select
        q.queue_name,
        q.queue_ntables,
        q.queue_cur_table,
        q.queue_rotation_period,
        q.queue_switch_time,
        q.queue_external_ticker,
        q.queue_ticker_paused,
        q.queue_ticker_max_count,
        q.queue_ticker_max_lag,
        q.queue_ticker_idle_period,
        now() - last.tick_time,
        ((last.tick_event_seq - base.tick_event_seq)
            / nullif(greatest(extract(epoch from last.tick_time - base.tick_time), 0), 0))::float8,
        pgq._last_taken(q.queue_event_seq) - last.tick_event_seq,
        last.tick_id
    from pgq.queue q
    left join lateral (
        select t.tick_id, t.tick_time, t.tick_event_seq
        from pgq.tick t
        where t.tick_queue = q.queue_id
        order by t.tick_id desc
        limit 1
    ) as last on true
    left join lateral (
        select t.tick_time, t.tick_event_seq
        from pgq.tick t
        where t.tick_queue = q.queue_id and t.tick_id >= last.tick_id - 20
        order by t.tick_id
        limit 1
    ) as base on true
    where i_queue_name is null or q.queue_name = i_queue_name
    order by q.queue_name;
end;
$$;

create or replace function pgq.get_queue_info(
    out queue_name text,
    out queue_ntables int4,
    out queue_cur_table int4,
    out queue_rotation_period interval,
    out queue_switch_time timestamptz,
    out queue_external_ticker boolean,
    out queue_ticker_paused boolean,
    out queue_ticker_max_count int4,
    out queue_ticker_max_lag interval,
    out queue_ticker_idle_period interval,
    out ticker_lag interval,
    out ev_per_sec float8,
    out ev_new int8,
    out last_tick_id int8
)
returns setof record
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns settings and state of all queues, sorted by name.
 */
    select * from pgq.get_queue_info(null::text);
$$;
