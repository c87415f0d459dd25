/*
 * The tables of this database that are being analyzed: phase and blocks.
 *
 * Only those of the same role are seen, unless the role is a member of pg_read_all_stats.
 */
select
    n.nspname as schema,
    c.relname as name,
    p.phase,
    p.sample_blks_scanned as blocks_done,
    p.sample_blks_total as blocks_total
from pg_catalog.pg_stat_progress_analyze p
join pg_catalog.pg_class c on c.oid = p.relid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where p.datname = pg_catalog.current_database()
order by n.nspname, c.relname
