create or replace function pgq.event_failed(x_batch_id int8, x_event_id int8, x_reason text)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Moves an event of an open batch to failed_queue (dead letters), with a reason.
 *
 * Returns 1, or 0 when the event has already failed or waits for a retry.  The consumer continues
 * without the event.  failed_event_retry() returns it to the queue.  Cooperative consumers share
 * their failed events.
 */
declare
    v_done record;
begin
    v_done := pgq._put_back(
        x_batch_id, array[x_event_id], array[null::timestamptz], array[0], array[x_reason]
    );
    return v_done.failed;
end;
$$;
