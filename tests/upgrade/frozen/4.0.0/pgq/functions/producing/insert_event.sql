create or replace function pgq.insert_event(
    queue_name text,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text
)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Inserts an event and returns its id.
 *
 * All producers but bulk loaders come through here.  The event is delivered if and only if the
 * transaction commits.
 */
begin
    return pgq.insert_event_raw(
        queue_name, null, now(), null, null,
        ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
    );
end;
$$;

create or replace function pgq.insert_event(queue_name text, ev_type text, ev_data text)
returns int8
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Inserts an event without extra fields and returns its id.
 */
begin
    return pgq.insert_event(queue_name, ev_type, ev_data, null, null, null, null);
end;
$$;
