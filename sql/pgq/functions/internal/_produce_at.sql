create or replace function pgq._produce_at(
    queue_name text,
    send_at timestamptz,
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
 * Runs pgq.insert_event_at() for a role that may produce and is no administrator.
 *
 * It checks rights as _produce() does.
 */
declare
    v_id int8;
begin
    perform pgq._require_length(ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4);
    v_id := pgq._insert_event_at(
        queue_name, send_at, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
    );
    perform pgq._require_producer(queue_name, ev_type, ev_extra1, i_role);
    return v_id;
end;
$$;
