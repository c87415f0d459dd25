create or replace function pgq.insert_event_at(
    queue_name text,
    send_at timestamptz,
    ev_type text,
    ev_data text,
    ev_extra1 text default null,
    ev_extra2 text default null,
    ev_extra3 text default null,
    ev_extra4 text default null
)
returns int8
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Inserts an event that consumers get at a later time, and returns its id.
 *
 * send_at -- the time of delivery.  An event with a time in the past is inserted at once.
 *
 * The event waits in delayed_event.  The first maint_retry_events() after send_at moves it into the
 * queue.  It keeps its id.  Its ev_time is the time of that move, so that the consumer's lag is
 * computed correctly.  Until then cancel_delayed_event() can cancel the event.
 *
 * Raises the errors of insert_event().
 */
declare
    v_id int8;
begin
    if pg_has_role('pgq_admin', 'usage') then
        v_id := pgq._insert_event_at(
            queue_name, send_at, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
        );
        if pgq._is_control(ev_type) then
            perform pgq._prove_event(queue_name, v_id, ev_type);
        end if;
        return v_id;
    else
        return pgq._produce_at(
            queue_name, send_at, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4,
            current_user
        );
    end if;
end;
$$;
