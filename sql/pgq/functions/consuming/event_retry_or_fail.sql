create or replace function pgq.event_retry_or_fail(
    x_batch_id int8,
    x_event_id int8,
    x_retry_seconds int4,
    x_max_attempts int4,
    x_reason text
)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Schedules a retry of an event of an open batch, or marks it as failed after too many attempts.
 *
 * Returns 'retry' or 'failed'.  A second call changes nothing and returns the state of the event.
 *
 * x_retry_seconds -- delay of the next delivery in seconds.
 * x_max_attempts -- maximum number of deliveries, including the first; null: only the queue's
 *     max_retries limits them.  max_retries applies in any case.
 * x_reason -- the reason for failed_queue; null: a text that names the limit.
 */
declare
    v_limit record;
    v_done record;
    v_retries int4;
    v_owner int4;
begin
    if x_retry_seconds is null or x_max_attempts < 1 then
        raise exception using
            errcode = 'LD005',
            message = case when x_retry_seconds is null then 'Invalid NULL value'
                else format('bad number of attempts: %s', x_max_attempts) end,
            detail = case when x_retry_seconds is null then 'x_retry_seconds is null'
                else 'the first delivery is attempt 1' end,
            hint = 'set the seconds to wait, and 1 attempt or more, or null for no limit';
    end if;
    v_limit := pgq._max_retries(x_batch_id);
    v_retries := least(x_max_attempts - 1, v_limit.max_retries);
    v_done := pgq._put_back(
        x_batch_id,
        array[x_event_id],
        array[clock_timestamp() + make_interval(secs => x_retry_seconds)],
        array[v_retries],
        array[
            coalesce(
                x_reason,
                case when v_retries = v_limit.max_retries then v_limit.reason
                    else format('%s attempts failed', x_max_attempts) end
            )
        ]
    );
    if v_done.retried + v_done.failed > 0 then
        return case when v_done.failed > 0 then 'failed' else 'retry' end;
    end if;
    v_owner := (pgq._open_batch(x_batch_id)).sub_id;
    return case
        when exists (
            select 1 from pgq.failed_queue where ev_owner = v_owner and ev_id = x_event_id
        ) then 'failed'
        else 'retry'
    end;
end;
$$;
