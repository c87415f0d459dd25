create or replace function pgq.batch_event_spread(
    x_batch_id int8,
    i_width int8 default 4096,
    out first_id int8,
    out events int8
)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * How many events of an open batch lie in each stretch of ids; stretches without any are left out.
 *
 * For cutting a large batch into parts.  One pass over its events without sorting them; ids have
 * gaps, so ticks alone cannot tell.
 *
 * i_width -- ids of a stretch.
 */
begin
    return query execute format(
        'select (e.ev_id / %1$s) * %1$s, count(*) from (%2$s) e group by 1 order by 1',
        i_width,
        -- Order is not needed, and would be paid for.
        regexp_replace(pgq.batch_event_sql(x_batch_id), '\norder by 1$', '')
    );
end;
$$;
