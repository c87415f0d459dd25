/*
 * Tables and sequences of this database that local_show_missing leaves out on the root, and why:
 * kind, schema.name, reason (schema: its name has a dot; unlogged).
 */
select case c.relkind when 'S' then 'S' else 'r' end,
    n.nspname || '.' || c.relname,
    case when position('.' in n.nspname) > 0 then 'schema' else 'unlogged' end
from pg_catalog.pg_class as c
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'S')
    and not c.relispartition
    and c.relpersistence in ('p', 'u')
    and n.nspname not in ('information_schema', 'pgq', 'pgq_ext', 'pgq_coop', 'pgq_node', 'londiste',
        'londiste_capture', 'londiste_apply')
    and n.nspname !~ '^pg_'
    and (position('.' in n.nspname) > 0
        or c.relpersistence = 'u' and (c.relkind <> 'S' or exists (
            select from pg_catalog.pg_depend as d
                join pg_catalog.pg_class as o on o.oid = d.refobjid and o.relpersistence = 'u'
            where d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.objid = c.oid
                and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
                and d.deptype in ('a', 'i'))))
    and not exists (
        select from londiste.table_info as t
        where t.queue_name = %(queue)s and t.local and c.relkind <> 'S'
            and position('.' in n.nspname) = 0
            and n.nspname || '.' || c.relname in (t.table_name, t.dest_table))
order by 1 desc, 2
