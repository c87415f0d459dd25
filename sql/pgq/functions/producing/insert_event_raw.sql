create or replace function pgq.insert_event_raw(
    queue_name text,
    ev_id int8,
    ev_time timestamptz,
    ev_owner int4,
    ev_retry int4,
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
 * Inserts an event with every field given, and returns its id.
 *
 * ev_id -- null: the next id of the queue.  A given id is kept; the call still consumes one id of
 *     the sequence.
 * ev_time -- null: now().
 * ev_owner -- id of the subscription that alone gets the event; null: all consumers.
 *
 * A control event of an administrator is proven, as in insert_event().
 */
declare
    v_id int8;
begin
    v_id := pgq._insert_event_raw(
        queue_name, ev_id, ev_time, ev_owner, ev_retry,
        ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
    );
    if pgq._is_control(ev_type) and pg_has_role('pgq_admin', 'usage') then
        perform pgq._prove_event(queue_name, v_id, ev_type);
    end if;
    return v_id;
end;
$$;
