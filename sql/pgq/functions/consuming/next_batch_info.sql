create or replace function pgq.next_batch_info(
    i_queue_name text,
    i_consumer_name text,
    out batch_id int8,
    out cur_tick_id int8,
    out prev_tick_id int8,
    out cur_tick_time timestamptz,
    out prev_tick_time timestamptz,
    out cur_tick_event_seq int8,
    out prev_tick_event_seq int8
)
returns record
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Opens the next batch of a consumer, up to the next tick; all null when there is none yet.
 */
    select
        f.batch_id,
        f.cur_tick_id,
        f.prev_tick_id,
        f.cur_tick_time,
        f.prev_tick_time,
        f.cur_tick_event_seq,
        f.prev_tick_event_seq
    from pgq._next_batch(i_queue_name, i_consumer_name, null::interval, null::int4, null::interval, false) as f;
$$;
