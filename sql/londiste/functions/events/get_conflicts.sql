create or replace function londiste.get_conflicts(
    i_queue_name text,
    out table_name text,
    out kind text,
    out policy text,
    out times int8,
    out first_seen timestamptz,
    out last_seen timestamptz,
    out last_event int8
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns how often the policies of tables have resolved conflicts, per table and kind.
 */
select c.table_name, c.kind, c.policy, c.times, c.first_seen, c.last_seen, c.last_event
from londiste.apply_conflict c
where c.queue_name = i_queue_name
order by c.table_name, c.kind, c.policy;
$$;
