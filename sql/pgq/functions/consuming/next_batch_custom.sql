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
 * Opens the next batch of a consumer, of a given minimum size; all null when there is none yet.
 *
 * If the consumer has an open batch, the function returns that batch, whatever its size.
 *
 * i_min_lag -- minimum age of the tick that ends the batch; null: no minimum.
 * i_min_count -- minimum number of events; null: no minimum.
 * i_min_interval -- minimum time span of the batch; null: no minimum.
 *
 * Several ticks are joined to reach one of the minimums.  Without both the batch ends at the next
 * tick.
 */
    select * from pgq._next_batch(
        i_queue_name, i_consumer_name, i_min_lag, i_min_count, i_min_interval, false
    );
$$;
