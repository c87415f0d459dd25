create or replace function pgq.batch_event_spread(
    x_batch_id int8,
    i_width int8 default 4096,
    out first_id int8,
    out events int8,
    out event_table text,
    out first_page int8,
    out last_page int8
)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the number of events of an open batch in each range of ids, with table and pages.
 *
 * Use it to split a large batch into slices; batch_page_sql() reads each slice.  The function reads
 * the events once without sorting them.  It counts, because ids have gaps and ticks alone do not
 * give the number of events.  Ranges without events have no row.  A range in two tables has two.
 *
 * i_width -- ids per range, default 4096.
 */
begin
    return query execute format(
        'select s.stretch * %1$s, s.found, s.tableoid::regclass::text,'
        ' (s.first::text::point)[0]::int8, (s.last::text::point)[0]::int8'
        ' from ('
        'select e.ev_id / %1$s as stretch, e.tableoid, count(*) as found,'
        ' min(e.ctid) as first, max(e.ctid) as last'
        ' from (%2$s) e group by 1, 2'
        ') s order by 1, 3',
        i_width,
        regexp_replace(
            -- The order does not matter here, and sorting would cost time.
            regexp_replace(pgq.batch_event_sql(x_batch_id), E'\\norder by 1$', ''),
            'select [a-z0-9_, ]* from only', 'select ev_id, tableoid, ctid from only', 'g'
        )
    );
end;
$$;
