create or replace function pgq.finish_and_next(
    i_queue_name text,
    i_consumer_name text,
    i_finish int8 default null,
    i_min_lag interval default null,
    i_min_count int4 default null,
    i_min_interval interval default null,
    i_from_tick int8 default null,
    i_max_count int4 default null,
    i_durable boolean default true,
    i_max_tick int8 default null,
    out finished int4,
    out batch_id int8,
    out cur_tick_id int8,
    out prev_tick_id int8,
    out cur_tick_time timestamptz,
    out prev_tick_time timestamptz,
    out cur_tick_event_seq int8,
    out prev_tick_event_seq int8,
    out event_sql text,
    out is_followed boolean
)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
/*
 * Finishes a batch, opens the next one and returns the query of its events, in one call.
 *
 * Both steps take effect, or none.  After an error the batch i_finish is still open.
 *
 * i_finish -- id of the batch to finish first; null (default): none.
 * i_min_lag, i_min_count, i_min_interval -- see next_batch_custom().
 * i_from_tick -- the tick that the consumer has finished.  A consumer that is at a later tick and gets
 *     no batch is an error (LD107).
 * i_max_count -- maximum number of events, approximately, of a batch that joins the ticks after
 *     i_from_tick.  It has no effect together with i_min_count or i_min_interval.
 * i_durable -- false: the commit need not wait for the disk.  After a crash of the server, finished
 *     or opened batches may be lost and delivered again.  Use false only in a transaction that does
 *     nothing else, for a consumer that stores its own position.  Default: true.
 * i_max_tick -- last tick that may be joined into the batch; null (default): no limit.
 * finished -- the result of finish_batch(); null when i_finish is null.
 * event_sql -- the query of the events, valid while the batch is open.  Null, as all other
 *     columns of the batch, when there is no next batch.
 * is_followed -- true when the queue already has a tick after the batch.
 */
declare
    v_min_count int4 := i_min_count;
    v_stands int8;
begin
    if not i_durable then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    if i_finish is not null then
        finished := pgq.finish_batch(i_finish);
    end if;
    if i_max_count is not null and i_min_count is null and i_min_interval is null then
        v_min_count := pgq._joined_count(i_queue_name, i_from_tick, i_max_count, i_max_tick);
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
    from pgq._next_batch(
        i_queue_name,
        i_consumer_name,
        i_min_lag,
        v_min_count,
        i_min_interval,
        i_max_tick is not null
    ) as n;
    if batch_id is not null then
        event_sql := pgq.batch_event_sql(batch_id);
        -- A plan from a time when the table was empty must not keep scanning it: hence the settings above.
        is_followed := (
            select t.tick_id
            from pgq.tick t
            where t.tick_queue = (select queue_id from pgq.queue where queue_name = i_queue_name)
                and t.tick_id > cur_tick_id
            order by t.tick_queue, t.tick_id
            limit 1
        ) is not null;
    elsif i_from_tick is not null then
        -- The consumer was registered again at a later tick.  It would wait for the next tick and skip
        -- the events before it.
        v_stands := (
            select s.sub_last_tick
            from pgq.subscription s
            where s.sub_queue = (select queue_id from pgq.queue where queue_name = i_queue_name)
                and s.sub_consumer = (select co_id from pgq.consumer where co_name = i_consumer_name)
        );
        if v_stands > i_from_tick then
            raise exception using
                errcode = 'LD107',
                message = format('consumer %s of queue %s is at tick %s, but has finished tick %s',
                    i_consumer_name, i_queue_name, v_stands, i_from_tick),
                detail = 'it was registered again, or moved, while it was running',
                hint = format('select pgq.register_consumer_at(%L, %L, %s)',
                    i_queue_name, i_consumer_name, i_from_tick);
        end if;
    end if;
end;
$$;
