create or replace function pgq.event_retry_raw(
    x_queue text,
    x_consumer text,
    x_retry_after timestamptz,
    x_ev_id int8,
    x_ev_time timestamptz,
    x_ev_retry int4,
    x_ev_type text,
    x_ev_data text,
    x_ev_extra1 text,
    x_ev_extra2 text,
    x_ev_extra3 text,
    x_ev_extra4 text
)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Schedules a delivery of any event to one consumer, and returns the id of the event.
 *
 * x_retry_after -- time of the delivery.
 * x_ev_id -- null: the next id of the queue.
 * x_ev_time -- null: now.
 */
declare
    v_id int8 := x_ev_id;
    v_sub record;
begin
    select s.sub_id, s.sub_queue, q.queue_event_seq
    into v_sub
    from pgq.queue q
    join pgq.registration s on s.sub_queue = q.queue_id
    join pgq.consumer c on c.co_id = s.sub_consumer
    where q.queue_name = x_queue and c.co_name = x_consumer;
    if not found then
        raise exception using
            errcode = 'LD002',
            message = 'consumer not registered',
            detail = format('queue %s, consumer %s',
                            coalesce(x_queue, 'NULL'), coalesce(x_consumer, 'NULL')),
            hint = format('select pgq.register_consumer(%L, %L)', x_queue, x_consumer);
    end if;
    perform pgq._require_time(x_retry_after, 'give a time');
    if v_id is null then
        v_id := nextval(v_sub.queue_event_seq);
    end if;
    insert into pgq.retry_queue (
        ev_retry_after, ev_queue, ev_id, ev_time, ev_owner, ev_retry, ev_type, ev_data,
        ev_extra1, ev_extra2, ev_extra3, ev_extra4
    )
    values (
        x_retry_after, v_sub.sub_queue, v_id, coalesce(x_ev_time, now()), v_sub.sub_id,
        x_ev_retry, x_ev_type, x_ev_data, x_ev_extra1, x_ev_extra2, x_ev_extra3, x_ev_extra4
    );
    return v_id;
end;
$$;
