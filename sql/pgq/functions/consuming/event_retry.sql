create or replace function pgq.event_retry(
    x_batch_id int8,
    x_event_id int8,
    x_retry_time timestamptz
)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Schedules another delivery of an event of an open batch, to this consumer only.
 *
 * x_retry_time -- time of the next delivery.
 *
 * Returns 1, or 0 when the event already waits for a retry or has failed.  An event that has
 * reached the queue's max_retries is moved to failed_queue instead; the result is 1, too.
 *
 * Raises LD005 when the time is null, infinite, or not in the years 1 to 9999.
 */
declare
    v_limit record;
    v_done record;
begin
    perform pgq._require_time(x_retry_time, 'give a time, or a number of seconds from now');
    v_limit := pgq._max_retries(x_batch_id);
    v_done := pgq._put_back(
        x_batch_id,
        array[x_event_id],
        array[x_retry_time],
        array[v_limit.max_retries],
        array[v_limit.reason]
    );
    return v_done.retried + v_done.failed;
end;
$$;

create or replace function pgq.event_retry(
    x_batch_id int8,
    x_event_id int8,
    x_retry_seconds int4
)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * With x_retry_seconds, the next delivery is that many seconds from now.
 */
begin
    return pgq.event_retry(
        x_batch_id, x_event_id, clock_timestamp() + make_interval(secs => x_retry_seconds)
    );
end;
$$;
