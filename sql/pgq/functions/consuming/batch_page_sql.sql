create or replace function pgq.batch_page_sql(
    x_batch_id int8,
    i_tables text[],
    i_first_pages int8[],
    i_last_pages int8[]
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * The query that reads the events of an open batch on some pages, in the order of their ids.
 *
 * With what batch_event_spread() says of a part of the batch it looks at that part only, where
 * batch_event_sql() with a condition looks at all of it.  A table that was rewritten in between
 * (VACUUM FULL) has its events elsewhere: count them.
 *
 * i_tables, i_first_pages, i_last_pages -- event tables, and the pages of each.
 */
declare
    v_sql text := pgq.batch_event_sql(x_batch_id);
    v_table text;
    v_number int4;
    v_pages text;
begin
    foreach v_table in array array(
        select pgq.quote_fqname(t) from pgq.batch_event_tables(x_batch_id) as t
    ) loop
        v_number := array_position(i_tables::regclass[], v_table::regclass);
        v_pages := 'false';
        if v_number is not null then
            v_pages := format(
                'ctid >= ''(%s,0)''::pg_catalog.tid and ctid < ''(%s,0)''::pg_catalog.tid',
                i_first_pages[v_number],
                i_last_pages[v_number] + 1
            );
        end if;
        v_sql := replace(
            v_sql,
            format(' from only %s where ev_txid ', v_table),
            -- Not for the index: without statistics that would seem the better way.
            format(' from only %s where %s and ev_txid + 0 ', v_table, v_pages)
        );
    end loop;
    v_sql := replace(v_sql, ' and ev_txid <= ', ' and ev_txid + 0 <= ');
    return v_sql;
end;
$$;
