create or replace function pgq._produce_once(
    queue_name text,
    event_key text,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text,
    i_role name,
    out ev_id int8,
    out is_new boolean
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Runs pgq.insert_event_once() for a role that may produce and is no administrator.
 *
 * It checks rights as _produce() does.
 */
begin
    perform pgq._require_length(ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4);
    select o.ev_id, o.is_new
    into ev_id, is_new
    from pgq._insert_event_once(
        queue_name, event_key, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
    ) as o;
    perform pgq._require_producer(queue_name, ev_type, ev_extra1, i_role);
end;
$$;
