create or replace function pgq_ext.set_event_returned(
    a_consumer text,
    a_subconsumer text,
    a_batch_id int8,
    a_event_id int8,
    a_retry_seconds int4,
    a_max_attempts int4,
    a_reason text
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
as $$
/*
 * Stores that an event was not processed with its batch and goes back to the queue.
 *
 * Call it in the transaction that applies the batch.  If the consumer dies before it has reported the
 * event to the queue, it can do so after its restart (get_returned_events).  Returns false when
 * the event was stored already; then nothing changes.  Events of other batches of the consumer are
 * deleted.
 *
 * a_retry_seconds -- delay of the next delivery in seconds; null: the event becomes a dead letter.
 * a_max_attempts -- number of deliveries after which it becomes a dead letter instead; null: no limit.
 * a_reason -- the reason for the dead letter.
 */
declare
    v_batch int8;
begin
    perform pgq_ext._require_values(
        a_consumer, a_subconsumer, a_batch_id::text, a_event_id::text
    );
    -- The stored events are of one batch.  The index finds it from its upper end, where
    -- the newest batch is, without reading the dead ones of earlier batches.
    select batch_id into v_batch
    from pgq_ext.returned_event
    where consumer_id = a_consumer and subconsumer_id = a_subconsumer
    order by batch_id desc, event_id desc
    limit 1;
    if v_batch <> a_batch_id then
        delete from pgq_ext.returned_event
        where consumer_id = a_consumer
            and subconsumer_id = a_subconsumer
            and batch_id = v_batch;
    end if;
    insert into pgq_ext.returned_event (
        consumer_id, subconsumer_id, batch_id, event_id, retry_seconds, max_attempts, reason
    )
    values (
        a_consumer, a_subconsumer, a_batch_id, a_event_id, a_retry_seconds, a_max_attempts,
        a_reason
    )
    on conflict on constraint returned_event_pkey do nothing;
    return found;
end;
$$;
