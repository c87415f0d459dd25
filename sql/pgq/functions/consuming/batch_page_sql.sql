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
 * Returns the query that reads the events of an open batch on given pages, in the order of ids.
 *
 * The query reads only these pages.  A query of batch_event_sql() with a condition would read the
 * whole batch.  Take the pages from batch_event_spread().  If a table is rewritten in between
 * (VACUUM FULL), its events are on other pages; compare the number of events.
 *
 * i_tables -- event tables, one element per range of pages.
 * i_first_pages, i_last_pages -- first and last page of each range.
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
            -- Keep the planner from the index: without statistics it would seem cheaper.
            format(' from only %s where %s and ev_txid + 0 ', v_table, v_pages)
        );
    end loop;
    v_sql := replace(v_sql, ' and ev_txid <= ', ' and ev_txid + 0 <= ');
    return v_sql;
end;
$$;
