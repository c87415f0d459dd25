create or replace function pgq.events_retry_or_fail(
    x_batch_id int8,
    x_event_ids int8[],
    x_retry_seconds int4[],
    x_max_attempts int4[],
    x_reasons text[]
)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Schedules retries of events of an open batch, or marks them as failed.  Reads the batch once.
 *
 * Returns the number of events, without those that already wait for a retry or have failed.  One
 * call for many events takes about as long as event_retry() for one of them.
 *
 * x_event_ids -- the events; each at most once.
 * x_retry_seconds -- delay of the next delivery in seconds; null: the event fails at once.
 * x_max_attempts -- maximum number of deliveries, including the first; null: only the queue's
 *     max_retries limits them.  max_retries applies in any case.
 * x_reasons -- the reasons for failed_queue; null: a text that names the limit, if there is one.
 *
 * Raises LD005 for arrays of different lengths, and LD106 if the batch does not have an event, or
 * has different events with its id.
 */
declare
    v_limit record;
    v_done record;
    v_now constant timestamptz := clock_timestamp();
    v_retry_after timestamptz[];
    v_max_retries int4[];
    v_reasons text[];
begin
    if x_event_ids is null
        or cardinality(x_event_ids) is distinct from cardinality(x_retry_seconds)
        or cardinality(x_event_ids) is distinct from cardinality(x_max_attempts)
        or cardinality(x_event_ids) is distinct from cardinality(x_reasons)
    then
        raise exception using
            errcode = 'LD005',
            message = 'the arrays have different lengths',
            detail = format('%s ids, %s delays, %s limits, %s reasons',
                            coalesce(cardinality(x_event_ids)::text, 'no'),
                            coalesce(cardinality(x_retry_seconds)::text, 'no'),
                            coalesce(cardinality(x_max_attempts)::text, 'no'),
                            coalesce(cardinality(x_reasons)::text, 'no')),
            hint = 'give one element per event in each array';
    end if;
    if 0 >= any (x_max_attempts) then
        raise exception using
            errcode = 'LD005',
            message = format('bad number of attempts: %s',
                             (select min(a) from unnest(x_max_attempts) as a)),
            detail = 'the first delivery is attempt 1',
            hint = 'allow 1 attempt or more, or null for no limit';
    end if;
    v_limit := pgq._max_retries(x_batch_id);
    select
        array_agg(v_now + make_interval(secs => w.seconds) order by w.place),
        array_agg(w.max_retries order by w.place),
        array_agg(
            coalesce(
                w.reason,
                case when w.seconds is null then null
                    when w.max_retries = v_limit.max_retries then v_limit.reason
                    else format('%s attempts failed', w.attempts) end
            )
            order by w.place
        )
    into v_retry_after, v_max_retries, v_reasons
    from (
        select
            u.seconds, u.attempts, u.reason, u.place,
            case when u.seconds is null then 0
                else least(u.attempts - 1, v_limit.max_retries) end as max_retries
        from unnest(x_retry_seconds, x_max_attempts, x_reasons)
            with ordinality as u (seconds, attempts, reason, place)
    ) as w;
    v_done := pgq._put_back(
        x_batch_id, x_event_ids, v_retry_after, v_max_retries, v_reasons
    );
    return v_done.retried + v_done.failed;
end;
$$;
