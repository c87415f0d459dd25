-- Sequences %(names)s (quoted, with their schemas) as their creation needs them.
select
    ''::text as "column",
    n.nspname::text as schema,
    c.relname::text as name,
    ''::text as owned,
    pg_catalog.pg_get_userbyid(c.relowner)::text as owner,
    c.relpersistence = 'u' as unlogged,
    pg_catalog.format_type(s.seqtypid, null) as type,
    s.seqstart as start,
    s.seqincrement as increment,
    s.seqmin as minimum,
    s.seqmax as maximum,
    s.seqcache as cache,
    s.seqcycle as cycle,
    ''::text as literal,
    pg_catalog.obj_description(c.oid, 'pg_class') as comment
from pg_catalog.pg_sequence s
join pg_catalog.pg_class c on c.oid = s.seqrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.oid = any (%(names)s::pg_catalog.regclass[])
order by 2, 3
