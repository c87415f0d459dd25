create or replace function pgq._open_cursor(
    i_sql text,
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
 * Declares a cursor over a query for events and returns the first i_quick_limit events.
 *
 * No search_path is pinned: the condition i_extra_where is the caller's.
 */
declare
    v_sql text := i_sql;
    v_cursor text := pg_catalog.quote_ident(i_cursor_name);
begin
    if i_extra_where is not null then
        -- The line breaks keep a comment at the end of the condition from hiding the rest.
        v_sql := pg_catalog.format(
            E'select * from (\n%s\n) as ev where (\n%s\n) order by 1', v_sql, i_extra_where
        );
    end if;
    execute 'declare ' || v_cursor || ' no scroll cursor without hold for ' || v_sql;
    if i_quick_limit > 0 then
        return query execute 'fetch ' || i_quick_limit || ' from ' || v_cursor;
    end if;
end;
$$;
