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
 * Returns a failed event to the queue, for this consumer only.  Returns its id, which is kept.
 *
 * The consumer gets the event with the next tick.  Its ev_retry is 0: attempts are counted again
 * from the start.  In a queue that accepts no events now, the event waits in retry_queue until the
 * queue accepts them.
 *
 * Allowed to the owner of the consumer and to administrators.
 *
 * Raises LD106 when the event is not among the failed ones.
 */
declare
    v_sub pgq.registration := pgq._require_subscription(x_queue_name, x_consumer_name);
begin
    perform pgq._require_owner(v_sub.sub_queue, v_sub.sub_consumer, 'move');
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
 * Returns all failed events of a consumer to the queue.  Returns their number.
 *
 * Allowed to the owner of the consumer and to administrators.
 */
declare
    v_sub pgq.registration := pgq._require_subscription(x_queue_name, x_consumer_name);
begin
    perform pgq._require_owner(v_sub.sub_queue, v_sub.sub_consumer, 'move');
    return pgq._revive(x_queue_name, v_sub.sub_id, null::int8, true);
end;
$$;
