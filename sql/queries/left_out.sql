/*
 * Tables and sequences of this database that cannot be replicated: kind (r, S), schema, name, reason
 * (schema: its name has a dot; unlogged).  A sequence of an unlogged table is unlogged with it; one
 * that somebody made unlogged alone is replicated.  Reads nothing of Londiste.
 */
select case c.relkind when 'S' then 'S' else 'r' end, n.nspname::text, c.relname::text,
    case when pg_catalog.strpos(n.nspname, '.') > 0 then 'schema' else 'unlogged' end
from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'S')
    and not c.relispartition
    and c.relpersistence in ('p', 'u')
    and n.nspname not in ('information_schema', 'pgq', 'pgq_ext', 'pgq_coop', 'pgq_node', 'londiste',
        'londiste_capture', 'londiste_apply')
    and n.nspname !~ '^pg_'
    and (pg_catalog.strpos(n.nspname, '.') > 0
        or c.relpersistence = 'u' and (c.relkind <> 'S' or exists (
            select from pg_catalog.pg_depend d
                join pg_catalog.pg_class o on o.oid = d.refobjid and o.relpersistence = 'u'
            where d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.objid = c.oid
                and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
                and d.deptype in ('a', 'i'))))
    and not exists (
        select from pg_catalog.pg_depend d
        where d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.objid = c.oid
            and d.deptype = 'e')
order by 1 desc, 2, 3
