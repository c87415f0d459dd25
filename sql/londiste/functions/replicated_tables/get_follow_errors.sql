create or replace function londiste.get_follow_errors(
    i_queue_name text,
    out object_name text,
    out message text,
    out first_seen timestamptz)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the tables and sequences that a node could not add automatically, why, and since when.
 */
select f.object_name, f.message, f.first_seen
from londiste.follow_error as f
where f.queue_name = i_queue_name
order by f.object_name;
$$;
