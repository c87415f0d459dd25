create or replace function londiste.get_conflict_log(
    i_queue_name text,
    i_limit int4,
    out table_name text,
    out event_id int8,
    out row_nr int4,
    out kind text,
    out message text,
    out op text,
    out row_image text,
    out here_row text,
    out logged_at timestamptz
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the rows that were skipped by policy log, the newest first.
 *
 * i_limit -- maximum number of rows.
 */
select l.table_name, l.event_id, l.row_nr, l.kind, l.message, l.op, l.row_image, l.here_row, l.logged_at
from londiste.apply_log l
where l.queue_name = i_queue_name
order by l.log_id desc
limit i_limit;
$$;
