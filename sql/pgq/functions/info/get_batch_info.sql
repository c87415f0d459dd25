create or replace function pgq.get_batch_info(
    x_batch_id int8,
    out queue_name text,
    out consumer_name text,
    out batch_start timestamptz,
    out batch_end timestamptz,
    out prev_tick_id int8,
    out tick_id int8,
    out lag interval,
    out seq_start int8,
    out seq_end int8
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
/*
 * Returns the queue, consumer and content of an open batch; all null when it is not open.
 *
 * lag -- time since the tick that ends the batch.
 * seq_start, seq_end -- seq_end - seq_start is an upper limit of the number of events.
 */
begin
    select
        q.queue_name,
        c.co_name,
        last.tick_time,
        cur.tick_time,
        last.tick_id,
        cur.tick_id,
        now() - cur.tick_time,
        last.tick_event_seq,
        cur.tick_event_seq
    into
        queue_name, consumer_name, batch_start, batch_end, prev_tick_id, tick_id, lag,
        seq_start, seq_end
    -- Each tick by its whole key: without statistics a join reads all ticks of the queue.
    from pgq._open_batch(x_batch_id) s
    join pgq.queue q on q.queue_id = s.sub_queue
    join pgq.consumer c on c.co_id = s.sub_consumer
    join lateral (
        select t.*
        from pgq.tick t
        where t.tick_queue = s.sub_queue and t.tick_id = s.sub_last_tick
        limit 1
    ) last on true
    join lateral (
        select t.*
        from pgq.tick t
        where t.tick_queue = s.sub_queue and t.tick_id = s.sub_next_tick
        limit 1
    ) cur on true;
end;
$$;
