/*
 * Extended statistics of tables.
 *
 * %(oids)s -- the tables.
 */
select
    s.stxrelid::int8 as oid,
    n.nspname::text as schema,
    s.stxname::text as name,
    pg_catalog.pg_get_statisticsobjdef(s.oid) as definition,
    case when s.stxstattarget >= 0 then s.stxstattarget::int4 end as target,
    pg_catalog.obj_description(s.oid, 'pg_statistic_ext') as comment
from pg_catalog.pg_statistic_ext s
join pg_catalog.pg_namespace n on n.oid = s.stxnamespace
where s.stxrelid = any(%(oids)s::oid[])
order by s.stxrelid, s.stxname
