create or replace function londiste.partition_changes(
    i_queue_name text,
    out table_name text,
    out partition text,
    out wrong text,
    out first_seen timestamptz)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns partitions of captured tables whose rows have changed without an event.
 *
 * They were attached, detached or dropped with rows, or truncated before their TRUNCATE was captured.
 *
 * The ticker's maintenance finds them.  Call settle_partitions() when the subscribers have the right
 * rows again.
 */
select k.table_name, k.partition, k.wrong, k.first_seen
from londiste.capture_partition as k
where k.queue_name = i_queue_name
    and k.wrong is not null
order by k.table_name, k.first_seen, k.partition;
$$;
