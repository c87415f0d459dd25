create or replace function pgq.get_batch_events(
    x_batch_id int8,
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
 * Returns the events of an open batch in the order of their ids.
 *
 * The server collects all events before it returns the first.  Use get_batch_cursor() for large
 * batches.
 */
begin
    return query execute pgq.batch_event_sql(x_batch_id);
end;
$$;
