create or replace function pgq.failed_event_retry(
    x_queue_name text,
    x_consumer_name text,
    x_event_id int8
)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Puts an event that a consumer has given up on back into the queue, for this consumer; returns
 * its id, which is kept.
 *
 * It comes with the next tick and with ev_retry 0: attempts are counted anew.  In a queue that
 * takes no events now it waits in retry_queue until that changes.  Raises LD106 when it is not
 * among the failed ones.
 */
declare
    v_sub pgq.registration := pgq._require_subscription(x_queue_name, x_consumer_name);
begin
    if pgq._revive(x_queue_name, v_sub.sub_id, x_event_id, false) = 0 then
        perform pgq._raise_no_failed_event(x_queue_name, x_consumer_name, x_event_id);
    end if;
    return x_event_id;
end;
$$;

create or replace function pgq.failed_event_retry_all(x_queue_name text, x_consumer_name text)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Puts all events that a consumer has given up on back into the queue; returns how many.
 */
declare
    v_sub pgq.registration := pgq._require_subscription(x_queue_name, x_consumer_name);
begin
    return pgq._revive(x_queue_name, v_sub.sub_id, null::int8, true);
end;
$$;
