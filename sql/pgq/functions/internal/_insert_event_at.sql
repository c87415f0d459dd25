create or replace function pgq._insert_event_at(
    queue_name text,
    send_at timestamptz,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text
)
returns int8
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Runs pgq.insert_event_at() for administrators and for _produce_at(), which checks the caller.
 */
declare
    v_queue pgq.queue;
    v_id int8;
begin
    if send_at is null or send_at > now() then
        perform pgq._require_time(
            send_at, 'give a time, or insert it now: select pgq.insert_event(queue, type, data)'
        );
    end if;
    if send_at <= clock_timestamp() then
        return pgq._insert_event_raw(
            queue_name, null::int8, now(), null::int4, null::int4,
            ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
        );
    end if;
    v_queue := pgq._open_for_insert(queue_name, 1::int8);
    v_id := nextval(v_queue.queue_event_seq);
    insert into pgq.delayed_event
    values (
        send_at, v_queue.queue_id, v_id, now(),
        ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
    );
    return v_id;
end;
$$;
