create or replace function pgq.get_tick_cursor(
    i_queue_name text,
    i_from_tick int8,
    i_to_tick int8,
    i_cursor_name text,
    i_quick_limit int4,
    i_extra_where text default null,
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
as $$
/*
 * Declares a cursor over the events between two ticks and returns the first i_quick_limit events.
 *
 * The events are those of tick_event_sql().  The caller continues with FETCH or
 * fetch_batch_events() in the same transaction, and closes the cursor.
 *
 * i_quick_limit -- number of events to return; 0 or less: only declare the cursor.
 * i_extra_where -- SQL condition over the columns of an event; null (default): all events.
 *
 * The function does not pin search_path: the caller's condition runs with the caller's rights and
 * names.
 */
begin
    if i_cursor_name is null or i_quick_limit is null then
        raise exception using
            errcode = 'LD005',
            message = 'Invalid NULL value',
            hint = 'set the name of the cursor, and the number of events to return at once';
    end if;
    return query
    select *
    from pgq._open_cursor(
        pgq.tick_event_sql(i_queue_name, i_from_tick, i_to_tick),
        i_cursor_name,
        i_quick_limit,
        i_extra_where
    );
end;
$$;
