/*
 * Views, materialized views and functions of this database that belong to an application, none to an
 * extension: kind, schema, name (of a function with its arguments).  Reads nothing of Londiste.
 */
select case o.kind when 'v' then 'view' when 'm' then 'materialized view' else 'function' end,
    n.nspname::text, o.name
from (
        select c.tableoid, c.oid, c.relkind, c.relnamespace, c.relname::text
        from pg_catalog.pg_class c
        where c.relkind in ('v', 'm') and c.relpersistence <> 't'
        union all
        select p.tableoid, p.oid, 'f', p.pronamespace, pg_catalog.format('%s(%s)', p.proname,
            pg_catalog.pg_get_function_identity_arguments(p.oid))
        from pg_catalog.pg_proc p
    ) as o(classid, objid, kind, nspoid, name)
    join pg_catalog.pg_namespace n on n.oid = o.nspoid
where n.nspname not in ('information_schema', 'pgq', 'pgq_ext', 'pgq_coop', 'pgq_node', 'londiste',
        'londiste_capture', 'londiste_apply')
    and n.nspname !~ '^pg_'
    and not exists (
        select from pg_catalog.pg_depend d
        where d.classid = o.classid and d.objid = o.objid and d.deptype = 'e')
order by 1, 2, 3
