create or replace function pgq_coop.unregister_subconsumer(
    i_queue_name text,
    i_consumer_name text,
    i_subconsumer_name text,
    i_batch_handling int4
)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Removes a subconsumer; the main consumer and the other workers stay.
 *
 * Returns 1, or 0 when the subconsumer is unknown.
 *
 * i_batch_handling -- for a worker with an open batch: 0 refuses; 1 closes the batch, and its events
 *     are not delivered again.  To have them processed, another worker can take the batch over
 *     first: pgq_coop.next_batch() with a dead interval.
 */
declare
    v_main record;
    v_sub record;
begin
    v_main := pgq_coop._lock_main(i_queue_name, i_consumer_name);
    v_sub := pgq_coop._lock_subconsumer(
        v_main.sub_queue, v_main.sub_id, i_consumer_name || '.' || i_subconsumer_name
    );
    if v_sub.sub_consumer is null then
        return 0;
    end if;
    perform pgq._require_owner(v_main.sub_queue, v_sub.sub_consumer, 'end');
    if v_sub.sub_batch is not null and i_batch_handling is distinct from 1 then
        raise exception using
            errcode = 'LD108',
            message = 'subconsumer has active batch',
            detail = format('batch %s of %s.%s on queue %s is open',
                            v_sub.sub_batch, i_consumer_name, i_subconsumer_name, i_queue_name),
            hint = format('select pgq_coop.finish_batch(%s) when its events are processed, or '
                          'release its events with i_batch_handling = 1', v_sub.sub_batch);
    end if;
    perform pgq_coop._drop_delivery(v_sub.sub_batch);
    delete from pgq.paused_consumer
    where pc_queue = v_main.sub_queue and pc_consumer = v_sub.sub_consumer;
    perform pgq_coop._remove_subconsumer(v_main.sub_queue, v_sub.sub_consumer);
    return 1;
end;
$$;
