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
 * Inserts an event that consumers get at a time in the future, or now if that is past; returns
 * its id.
 *
 * It waits in delayed_event and is put into the queue by the first maint_retry_events() from
 * send_at on, with its id; ev_time is the time when that happens, so that a consumer's lag is a
 * lag.  cancel_delayed_event() takes it back until then.
 *
 * Raises what insert_event() raises.
 */
begin
    if pg_has_role('pgq_admin', 'usage') then
        return pgq._insert_event_at(
            queue_name, send_at, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
        );
    else
        return pgq._produce_at(
            queue_name, send_at, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
        );
    end if;
end;
$$;
