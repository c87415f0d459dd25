/*
 * What the running COPY commands into tables have read so far, and how many there are, per table.
 *
 * Only commands of the same role are seen, unless the role is a member of pg_read_all_stats.
 */
select
    n.nspname as schema,
    c.relname as name,
    sum(p.tuples_processed)::int8 as rows,
    sum(p.bytes_processed)::int8 as bytes,
    count(*)::int4 as running
from pg_catalog.pg_stat_progress_copy p
join pg_catalog.pg_class c on c.oid = p.relid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where p.datname = pg_catalog.current_database()
    and p.command = 'COPY FROM'
group by n.nspname, c.relname
