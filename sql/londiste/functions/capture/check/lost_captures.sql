create or replace function londiste.lost_captures(
    i_queue_name text,
    out table_name text,
    out reason text)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the local tables of a queue that have lost their native capture.
 *
 * No change of the table with that name reaches the queue.  Tables that were added without triggers
 * are not listed.
 */
select t.table_name, l.reason
from londiste.table_info as t
    cross join lateral (
        select londiste.lost_capture(t.queue_name, coalesce(t.dest_table, t.table_name)) as reason
    ) as l
where t.queue_name = i_queue_name
    and t.local
    and l.reason is not null
order by t.nr;
$$;
