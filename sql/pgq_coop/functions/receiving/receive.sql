create or replace function pgq_coop.receive(
    i_queue_name text,
    i_consumer_name text,
    i_subconsumer_name text,
    i_max_events int4,
    i_dead_interval interval default null,
    i_receiver text default null,
    out batch_id int8,
    out ev_id int8,
    out ev_time timestamptz,
    out ev_txid int8,
    out ev_retry int4,
    out ev_type text,
    out ev_data text,
    out ev_extra1 text,
    out ev_extra2 text,
    out ev_extra3 text,
    out ev_extra4 text
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
/*
 * Delivers up to i_max_events events to a worker, which settles each with ack() or nack().
 *
 * The events come from the worker's open batch in the order of their ids, or from the next batch when
 * none is open.  The function returns no row when there is nothing new, or when all remaining events
 * of the batch are delivered and not settled yet.  The last settled event finishes the batch.
 *
 * Every event is delivered at least once.  If a worker dies, its unsettled events are delivered again:
 * to the new session of this worker, or to the worker that takes the batch over.  The same
 * receiver gets an event once, except after pgq_coop.receive_again().
 *
 * i_dead_interval -- take over the batch of a worker without a sign of life for this time; null
 *     (default): never.  Calls of receive(), ack() and nack() are signs of life, and so is an open
 *     transaction with one of them.  Settled events stay settled.
 * i_receiver -- name of the receiver, a new text for each start of the worker; null (default): this
 *     database session.  Needed with a pooler that changes sessions between transactions.
 *
 * The function copies a batch when it opens it, one row per event.  After that the cost of a call
 * depends only on the number of events it returns.  Commit before working: other workers wait while
 * this transaction opens a batch.
 */
declare
    v_place record;
    v_own record;
    v_delivery pgq_coop.delivery;
    v_receiver text := i_receiver;
    v_handed_id int8;
begin
    if i_max_events is null or i_max_events < 1 then
        raise exception using
            errcode = 'LD005',
            message = case when i_max_events is null then 'Invalid NULL value'
                else format('bad number of events: %s', i_max_events) end,
            detail = 'i_max_events limits the events that one call returns',
            hint = 'use 1 or more';
    end if;
    if v_receiver is null then
        v_receiver := current_setting('pgq_coop.receiver', true);
        if v_receiver is null or v_receiver = '' then
            v_receiver := set_config('pgq_coop.receiver', gen_random_uuid()::text, false);
        end if;
    end if;

    -- Plans from a time when the tables were empty must not keep scanning all of them: enable_seqscan.
    -- Empty batches are finished at once, in a number that keeps the transaction short.
    for _ in 1 .. 1000 loop
        -- Without a lock on the main consumer: while a batch is open, workers do not meet there.
        -- An idle worker is not locked here, because next_batch() locks the main one first.
        select s.sub_queue, s.sub_id, s.sub_consumer
        into v_place
        from pgq.queue q
        join pgq.subscription s on s.sub_queue = q.queue_id
        join pgq.consumer c on c.co_id = s.sub_consumer
        where q.queue_name = i_queue_name
            and c.co_name = i_consumer_name || '.' || i_subconsumer_name
            and s.sub_batch is not null
            and exists (
                select 1
                from pgq.registration m
                join pgq.consumer mc on mc.co_id = m.sub_consumer
                where m.sub_queue = s.sub_queue
                    and m.sub_id = s.sub_id
                    and mc.co_name = i_consumer_name
            );
        v_own := pgq_coop._lock_subconsumer(
            v_place.sub_queue, v_place.sub_id, i_consumer_name || '.' || i_subconsumer_name
        );
        if v_own.sub_batch is null then
            if pgq_coop.next_batch(
                i_queue_name, i_consumer_name, i_subconsumer_name, i_dead_interval
            ) is null then
                return;
            end if;
            continue;
        end if;

        select d.* into v_delivery from pgq_coop.delivery d where d.batch_id = v_own.sub_batch;
        if not found then
            perform pgq_coop._open_delivery(v_own.sub_batch);
            select d.* into v_delivery from pgq_coop.delivery d where d.batch_id = v_own.sub_batch;
        end if;
        if v_delivery.receiver is distinct from v_receiver then
            v_delivery.handed_id := null;
        end if;

        batch_id := v_own.sub_batch;
        for ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data,
            ev_extra1, ev_extra2, ev_extra3, ev_extra4 in
            select
                e.ev_id, e.ev_time, e.ev_txid, e.ev_retry, e.ev_type, e.ev_data,
                e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4
            from pgq_coop.delivery_event e
            where e.content_id = v_delivery.content_id
                and e.ev_id > coalesce(v_delivery.handed_id, -9223372036854775808)
            order by e.ev_id
            limit i_max_events
        loop
            v_handed_id := ev_id;
            return next;
        end loop;
        if v_handed_id is not null then
            update pgq_coop.delivery d
            set handed_id = v_handed_id,
                receiver = v_receiver
            where d.batch_id = v_own.sub_batch;
        elsif not exists (
            select 1
            from pgq_coop.delivery_event e
            where e.content_id = v_delivery.content_id
            order by e.ev_id desc
            limit 1
        ) then
            perform pgq_coop._close_batch(v_own.sub_batch, v_place.sub_queue, v_own.sub_consumer);
            continue;
        end if;
        perform pgq_coop._touch(
            v_place.sub_queue, v_own.sub_consumer, v_own.sub_active, i_dead_interval
        );
        return;
    end loop;
end;
$$;
