create or replace function pgq_coop.next_batch_custom(
    i_queue_name text,
    i_consumer_name text,
    i_subconsumer_name text,
    i_min_lag interval,
    i_min_count int4,
    i_min_interval interval,
    i_dead_interval interval
)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Opens the worker's next batch, of a given minimum size, and returns its id; null if there is none.
 *
 * The function registers main consumer and worker when they are not registered.  If the worker has an
 * open batch, the function returns it again, which is also a sign of life.  Batches may be finished
 * in any order.
 *
 * i_min_lag, i_min_count, i_min_interval -- as for pgq.next_batch_custom().
 * i_dead_interval -- another worker without a sign of life for this time is unregistered.  Its batch
 *     goes to this worker with a new id, so calls of the dead worker with the old id have no
 *     effect.  Null: take over no batch.
 *
 * Only one worker at a time gets a batch: commit before working on it.
 */
declare
    v_main record;
    v_own record;
    v_other pgq.registration;
    v_seen record;
    v_now pgq.registration;
    v_batch_id int8;
    v_last_tick int8;
    v_next_tick int8;
begin
    loop
        v_main := pgq_coop._lock_main(i_queue_name, i_consumer_name);
        v_own := pgq_coop._lock_subconsumer(
            v_main.sub_queue, v_main.sub_id, i_consumer_name || '.' || i_subconsumer_name
        );
        exit when v_own.sub_consumer is not null;
        perform pgq_coop.register_subconsumer(
            i_queue_name, i_consumer_name, i_subconsumer_name
        );
    end loop;

    if v_main.sub_next_tick is not null then
        raise exception using
            errcode = 'LD108',
            message = 'main consumer has batch open?',
            detail = format('batch %s of %s on queue %s was opened with pgq.next_batch()',
                            v_main.sub_batch, i_consumer_name, i_queue_name),
            hint = format('select pgq.finish_batch(%s) when its events are processed',
                          v_main.sub_batch);
    end if;

    if v_own.sub_batch is not null then
        v_now := pgq._lock_subscription(v_main.sub_queue, v_own.sub_consumer);
        perform pgq._put_position(
            v_now, v_now.sub_last_tick, v_now.sub_batch, v_now.sub_next_tick, clock_timestamp()
        );
        return v_own.sub_batch;
    end if;

    if i_dead_interval is not null then
        -- Those with a batch first.  A locked row is in use by a live worker.  A row that was locked
        -- a moment ago may have a newer position.
        for v_seen in
            select s.sub_queue, s.sub_consumer
            from pgq.subscription s
            where s.sub_queue = v_main.sub_queue
                and s.sub_id = v_main.sub_id
                and s.sub_consumer not in (v_main.sub_consumer, v_own.sub_consumer)
                and s.sub_active + i_dead_interval < clock_timestamp()
            order by s.sub_batch is null, s.sub_active
        loop
            select r.*
            into v_other
            from pgq.registration r
            where r.sub_queue = v_seen.sub_queue and r.sub_consumer = v_seen.sub_consumer
            for update skip locked;
            v_other := pgq._position(v_other);
            exit when v_other.sub_active + i_dead_interval < clock_timestamp();
            v_other := null;
        end loop;
        if v_other.sub_key is not null then
            perform pgq_coop._remove_subconsumer(v_other.sub_queue, v_other.sub_consumer);
            if v_other.sub_batch is not null then
                v_batch_id := nextval('pgq.batch_id_seq');
                v_last_tick := v_other.sub_last_tick;
                v_next_tick := v_other.sub_next_tick;
                -- Events that the dead worker has settled stay settled; the others are delivered again.
                update pgq_coop.delivery
                set batch_id = v_batch_id,
                    receiver = null,
                    handed_id = null
                where batch_id = v_other.sub_batch;
            end if;
        end if;
    end if;

    if v_batch_id is null then
        select b.batch_id, b.prev_tick_id, b.cur_tick_id
        into v_batch_id, v_last_tick, v_next_tick
        from pgq.next_batch_custom(
            i_queue_name, i_consumer_name, i_min_lag, i_min_count, i_min_interval
        ) as b;
        if v_batch_id is not null then
            -- The position moves at once, and the batch changes its worker.
            perform pgq._put_position(
                pgq._lock_subscription(v_main.sub_queue, v_main.sub_consumer),
                v_next_tick, null::int8, null::int8, clock_timestamp()
            );
        end if;
    end if;

    -- A worker that waits for work reports a sign of life, but not with a write per call.  One whose
    -- batch was finished with pgq.finish_batch() gives up the position it got.
    if v_batch_id is not null
        or v_own.sub_last_tick is not null
        or v_own.sub_active + coalesce(i_dead_interval / 4, '10 seconds') < clock_timestamp()
    then
        perform pgq._put_position(
            pgq._lock_subscription(v_main.sub_queue, v_own.sub_consumer),
            v_last_tick, v_batch_id, v_next_tick, clock_timestamp()
        );
    end if;
    return v_batch_id;
end;
$$;

create or replace function pgq_coop.next_batch_custom(
    i_queue_name text,
    i_consumer_name text,
    i_subconsumer_name text,
    i_min_lag interval,
    i_min_count int4,
    i_min_interval interval
)
returns int8
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Opens the worker's next batch, of a given minimum size, without taking over a batch.
 */
    select pgq_coop.next_batch_custom(
        i_queue_name,
        i_consumer_name,
        i_subconsumer_name,
        i_min_lag,
        i_min_count,
        i_min_interval,
        null::interval
    );
$$;
