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
 * How many events of an open batch lie in each stretch of ids, and on which pages of which table.
 *
 * For cutting a large batch into parts, each of which is read with batch_page_sql().  One pass over
 * its events without sorting them; ids have gaps, so ticks alone cannot tell.  Stretches without
 * events are left out; one that lies in two tables comes twice.
 *
 * i_width -- ids of a stretch.
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
            -- Order is not needed, and would be paid for.
            regexp_replace(pgq.batch_event_sql(x_batch_id), '\norder by 1$', ''),
            'select [a-z0-9_, ]* from only', 'select ev_id, tableoid, ctid from only', 'g'
        )
    );
end;
$$;
