create or replace function pgq_coop.nack(
    i_batch_id int8,
    i_event_id int8,
    i_retry_seconds int4,
    i_reason text default null,
    i_max_attempts int4 default null
)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Settles an event of receive() as not processed.  Returns 'retry' or 'failed'.
 *
 * 'retry' means that one of the workers gets the event again, after events that are newer now.
 * 'failed' means that the number of attempts is reached, and the event is among the failed events.
 *
 * i_retry_seconds -- delay of the next delivery in seconds.
 * i_reason, i_max_attempts -- as for pgq.event_retry_or_fail().
 *
 * With a warning the function returns null in the cases in which ack() returns 0.  Each call reads the
 * batch once, so its cost grows with the number of events in the batch.
 */
declare
    v_own record;
    v_done text;
begin
    v_own := pgq_coop._lock_batch(i_batch_id);
    if v_own.sub_queue is null then
        raise warning 'nack: batch % not found', i_batch_id;
        return null;
    end if;
    if exists (
        select 1
        from pgq_coop.delivery d
        join pgq_coop.delivery_event e on e.content_id = d.content_id
        where d.batch_id = i_batch_id and e.ev_id = i_event_id
    ) then
        v_done := pgq.event_retry_or_fail(
            i_batch_id, i_event_id, i_retry_seconds, i_max_attempts, i_reason
        );
    end if;
    perform pgq_coop._settle(
        'nack', i_batch_id, array[i_event_id],
        v_own.sub_queue, v_own.sub_consumer, v_own.sub_active
    );
    return v_done;
end;
$$;
