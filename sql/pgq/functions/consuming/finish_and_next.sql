create or replace function pgq.finish_and_next(
    i_queue_name text,
    i_consumer_name text,
    i_finish int8 default null,
    i_min_lag interval default null,
    i_min_count int4 default null,
    i_min_interval interval default null,
    out finished int4,
    out batch_id int8,
    out cur_tick_id int8,
    out prev_tick_id int8,
    out cur_tick_time timestamptz,
    out prev_tick_time timestamptz,
    out cur_tick_event_seq int8,
    out prev_tick_event_seq int8,
    out event_sql text
)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Finishes a batch, opens the next and answers the query of its events: one call instead of three.
 *
 * Either both batches are moved past or none: after an error the batch i_finish is open as before.
 *
 * i_finish -- the batch to finish first; null for none.
 * i_min_lag, i_min_count, i_min_interval -- see next_batch_custom().
 * finished -- what finish_batch() answers; null when there was nothing to finish.
 * event_sql -- the query, good while the batch is open; null, like the rest, without a next batch.
 */
begin
    if i_finish is not null then
        finished := pgq.finish_batch(i_finish);
    end if;
    select
        n.batch_id,
        n.cur_tick_id,
        n.prev_tick_id,
        n.cur_tick_time,
        n.prev_tick_time,
        n.cur_tick_event_seq,
        n.prev_tick_event_seq
    into
        batch_id,
        cur_tick_id,
        prev_tick_id,
        cur_tick_time,
        prev_tick_time,
        cur_tick_event_seq,
        prev_tick_event_seq
    from pgq.next_batch_custom(
        i_queue_name, i_consumer_name, i_min_lag, i_min_count, i_min_interval
    ) as n;
    if batch_id is not null then
        event_sql := pgq.batch_event_sql(batch_id);
    end if;
end;
$$;
