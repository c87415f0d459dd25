-- Tables of this database that cannot be replicated: schema, name, reason (schema: its name has a
-- dot; unlogged).  Reads nothing of Londiste.
select n.nspname::text, c.relname::text,
    case when pg_catalog.strpos(n.nspname, '.') > 0 then 'schema' else 'unlogged' end
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and not c.relispartition
    and (c.relpersistence = 'u'
        or c.relpersistence = 'p' and pg_catalog.strpos(n.nspname, '.') > 0)
    and n.nspname not in ('information_schema', 'pgq', 'pgq_ext', 'pgq_coop', 'pgq_node',
                          'londiste', 'londiste_capture', 'londiste_apply')
    and n.nspname !~ '^pg_'
    and not exists (
        select from pg_catalog.pg_depend d
        where d.classid = c.tableoid and d.objid = c.oid and d.deptype = 'e')
order by 1, 2
