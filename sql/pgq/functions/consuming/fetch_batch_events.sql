create or replace function pgq.fetch_batch_events(
    i_cursor_name text,
    i_limit int4,
    i_bytes int8,
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
strict
as $$
/*
 * Returns the next events of a cursor of get_batch_cursor(), limited by number and by size.
 *
 * FETCH limits only the number of rows, and one row may have up to 1 GB.
 *
 * i_limit -- maximum number of events.
 * i_bytes -- maximum size of data and extra fields, in bytes.  The event that reaches the limit is
 *     the last one.  The first event is returned whatever its size.
 *
 * Returns no row at the end of the cursor, and when an argument is null.  The function does not pin
 * search_path: the condition of the cursor runs in it, and may use the names of its caller.
 */
declare
    v_cursor refcursor := i_cursor_name;
    v_count int4 := 0;
    v_bytes int8 := 0;
begin
    while v_count < i_limit and v_bytes < i_bytes loop
        fetch v_cursor into
            ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data,
            ev_extra1, ev_extra2, ev_extra3, ev_extra4;
        exit when not found;
        return next;
        v_count := v_count + 1;
        -- The length of a value is known without decompressing it.
        v_bytes := v_bytes
            + coalesce(pg_catalog.octet_length(ev_data), 0)
            + coalesce(pg_catalog.octet_length(ev_extra1), 0)
            + coalesce(pg_catalog.octet_length(ev_extra2), 0)
            + coalesce(pg_catalog.octet_length(ev_extra3), 0)
            + coalesce(pg_catalog.octet_length(ev_extra4), 0);
    end loop;
end;
$$;
