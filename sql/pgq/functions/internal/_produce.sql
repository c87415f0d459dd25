create or replace function pgq._produce(
    queue_name text,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text,
    i_role name
)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Runs pgq.insert_event() for a role that may produce and is no administrator.
 *
 * The check of rights comes after the insert, which locks the event table.  A queue can become a node
 * of a cascade only before the lock or after the end of this transaction.  In the first case
 * the check finds it.
 *
 * i_role -- whose rights insert_event() has looked at, for the hint: the caller of this function is not
 *     known to it.
 */
declare
    v_id int8;
begin
    -- A call would cost every event.
    if greatest(
        octet_length(ev_type), octet_length(ev_data), octet_length(ev_extra1),
        octet_length(ev_extra2), octet_length(ev_extra3), octet_length(ev_extra4)
    ) > 1000000 then
        perform pgq._require_length(ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4);
    end if;
    v_id := pgq._insert_event(
        queue_name, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
    );
    if ev_extra1 is not null or pgq._is_applied(ev_type) then
        perform pgq._require_producer(queue_name, ev_type, ev_extra1, i_role);
    end if;
    return v_id;
end;
$$;
