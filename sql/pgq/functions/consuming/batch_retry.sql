create or replace function pgq.batch_retry(i_batch_id int8, i_retry_seconds int4)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Schedules all events of an open batch for another delivery.
 *
 * i_retry_seconds -- delay in seconds.
 *
 * Returns the number of events, without those that already wait for a retry or have failed.  An
 * event that has reached the queue's max_retries is counted too, but moved to failed_queue.
 */
declare
    v_limit record;
    v_done record;
begin
    if (pgq._open_batch(i_batch_id)).sub_key is null then
        raise exception using
            errcode = 'LD106',
            message = format(
                'batch_retry: batch %s not found', coalesce(i_batch_id::text, 'NULL')
            ),
            detail = 'the batch is finished, or never existed',
            hint = 'open the next batch: select pgq.next_batch(queue, consumer)';
    end if;
    v_limit := pgq._max_retries(i_batch_id);
    v_done := pgq._put_back(
        i_batch_id,
        null::int8[],
        array[clock_timestamp() + make_interval(secs => i_retry_seconds)],
        array[v_limit.max_retries],
        array[v_limit.reason]
    );
    return v_done.retried + v_done.failed;
end;
$$;
