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
 * Finishes a batch, opens the next and answers the query of its events: one call instead of three.
 *
 * Either both batches are moved past or none: after an error the batch i_finish is open as before.
 *
 * i_finish -- the batch to finish first; null for none.
 * i_min_lag, i_min_count, i_min_interval -- see next_batch_custom().
 * i_from_tick, i_max_count -- without a minimum: the consumer is behind this tick, and ticks that have
 *     piled up since become one batch of about so many events at most.  A consumer that stands further on, and
 *     gets no batch, is an error (LD107).
 * i_durable -- false: a crash of the server may forget that a batch was finished or opened, and the commit
 *     need not wait for the disk.  For a transaction that does nothing else, of a consumer that knows what
 *     it has done: batches that it has finished may be handed out again.
 * i_max_tick -- ticks are joined up to this one and not across it; null: wherever it ends.
 * finished -- what finish_batch() answers; null when there was nothing to finish.
 * event_sql -- the query, good while the batch is open; null, like the rest, without a next batch.
 * is_followed -- the queue has a tick behind the batch already.
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
        -- A plan made while the table was empty must not stay a scan of it: hence the settings above.
        is_followed := (
            select t.tick_id
            from pgq.tick t
            where t.tick_queue = (select queue_id from pgq.queue where queue_name = i_queue_name)
                and t.tick_id > cur_tick_id
            order by t.tick_queue, t.tick_id
            limit 1
        ) is not null;
    elsif i_from_tick is not null then
        -- Somebody has registered it again further on: it would wait for the next tick, and leave out the rest.
        v_stands := (
            select s.sub_last_tick
            from pgq.subscription s
            where s.sub_queue = (select queue_id from pgq.queue where queue_name = i_queue_name)
                and s.sub_consumer = (select co_id from pgq.consumer where co_name = i_consumer_name)
        );
        if v_stands > i_from_tick then
            raise exception using
                errcode = 'LD107',
                message = format('consumer %s of queue %s is behind tick %s, it has done everything up to tick %s',
                    i_consumer_name, i_queue_name, v_stands, i_from_tick),
                detail = 'it was registered again, or moved, while it was at work',
                hint = format('select pgq.register_consumer_at(%L, %L, %s)',
                    i_queue_name, i_consumer_name, i_from_tick);
        end if;
    end if;
end;
$$;
