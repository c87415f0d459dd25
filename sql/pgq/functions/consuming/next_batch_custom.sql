create or replace function pgq.next_batch_custom(
    i_queue_name text,
    i_consumer_name text,
    i_min_lag interval,
    i_min_count int4,
    i_min_interval interval,
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
 * Opens the consumer's next batch; all null when there is none yet.
 *
 * An open batch is answered again, whatever its size.
 *
 * i_min_lag -- the batch ends at least this long ago.
 * i_min_count, i_min_interval -- the batch has this many events or spans this much time, over
 *     several ticks if need be; null for the plain next tick.
 */
    select * from pgq._next_batch(
        i_queue_name, i_consumer_name, i_min_lag, i_min_count, i_min_interval, false
    );
$$;
