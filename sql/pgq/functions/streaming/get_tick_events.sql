create or replace function pgq.get_tick_events(
    i_queue_name text,
    i_from_tick int8,
    i_to_tick int8,
    out ev_id int8,
    out ev_time timestamptz,
    out ev_txid int8,
    out ev_retry int4,
    out ev_type text,
    out ev_data text,
    out ev_extra1 text,
    out ev_extra2 text,
    out ev_extra3 text,
    out ev_extra4 text
)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the events between two ticks of a queue in the order of their ids.
 *
 * The events are those of tick_event_sql().  The server collects all events before it returns the
 * first.  Use get_tick_cursor() for large ranges.
 */
begin
    return query execute pgq.tick_event_sql(i_queue_name, i_from_tick, i_to_tick);
end;
$$;
