create or replace function pgq.event_failed(x_batch_id int8, x_event_id int8, x_reason text)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Gives up on an event of an open batch: it is kept in failed_queue, with the reason.
 *
 * Returns 1, or 0 when that was done before or the event waits for a retry.  The consumer goes on
 * without it; failed_event_retry() brings it back.  Cooperative consumers share their failed
 * events.
 */
declare
    v_done record;
begin
    v_done := pgq._put_back(x_batch_id, x_event_id, false, null::timestamptz, 0, x_reason);
    return v_done.failed;
end;
$$;
