/*
 * The indexes that are being built in this database: table, session, phase and how far it is.
 *
 * The name of an index nobody else sees before its transaction commits.  Only builds of the same
 * role are seen, unless the role is a member of pg_read_all_stats.
 */
select
    n.nspname as schema,
    c.relname as name,
    coalesce(a.application_name, '') as session,
    p.phase,
    p.blocks_done,
    p.blocks_total,
    p.tuples_done,
    p.tuples_total,
    coalesce(
        extract(epoch from pg_catalog.clock_timestamp() - a.query_start), 0)::float8 as seconds
from pg_catalog.pg_stat_progress_create_index p
join pg_catalog.pg_class c on c.oid = p.relid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
left join pg_catalog.pg_stat_activity a on a.pid = p.pid
where p.datname = pg_catalog.current_database()
order by n.nspname, c.relname, p.pid
