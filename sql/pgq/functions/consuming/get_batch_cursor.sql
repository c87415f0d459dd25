create or replace function pgq.get_batch_cursor(
    i_batch_id int8,
    i_cursor_name text,
    i_quick_limit int4,
    i_extra_where text,
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
 * Declares a cursor over the events of an open batch and returns the first i_quick_limit events.
 *
 * The caller continues with FETCH in the same transaction, and closes the cursor.
 *
 * i_quick_limit -- number of events to return; 0 or less: only declare the cursor.
 * i_extra_where -- SQL condition over the columns of an event; null: all events.
 *
 * When another argument is null, the function declares no cursor and returns no row.  It does not
 * pin search_path: the caller's condition runs with the caller's rights and names.
 */
begin
    if i_batch_id is null or i_cursor_name is null or i_quick_limit is null then
        return;
    end if;
    return query
    select *
    from pgq._open_cursor(
        pgq.batch_event_sql(i_batch_id), i_cursor_name, i_quick_limit, i_extra_where
    );
end;
$$;

create or replace function pgq.get_batch_cursor(
    i_batch_id int8,
    i_cursor_name text,
    i_quick_limit int4,
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
set search_path = pg_catalog, pg_temp
as $$
/*
 * Without i_extra_where, the cursor returns all events of the batch.
 */
begin
    return query
    select *
    from pgq.get_batch_cursor(i_batch_id, i_cursor_name, i_quick_limit, null::text);
end;
$$;
