-- What a database has of each of the components (and schemas) %(schemas)s: a row each, in their order.
--   name
--   schema_exists   there is such a schema
--   extension       name of the extension that owns it, or null
--   has_ledger      the schema has our table installed_file
--   names           their names: tables and functions
select
    s.name::text as name,
    n.oid is not null as schema_exists,
    (
        select e.extname
        from pg_catalog.pg_extension as e
        where e.extname = s.name
            or e.oid = (
                select d.refobjid
                from pg_catalog.pg_depend as d
                where d.classid = 'pg_catalog.pg_namespace'::regclass
                    and d.objid = n.oid
                    and d.refclassid = 'pg_catalog.pg_extension'::regclass
                    and d.deptype = 'e'
            )
        order by e.extname
        limit 1
    ) as extension,
    coalesce(pg_catalog.bool_or(i.name = 'installed_file' and i.kind = 'r'), false) as has_ledger,
    pg_catalog.array_remove(pg_catalog.array_agg(i.name::text), null) as names
from pg_catalog.unnest(%(schemas)s::name[]) with ordinality as s (name, nr)
left join pg_catalog.pg_namespace as n on n.nspname = s.name
left join (
    select c.relnamespace, c.relname, c.relkind
    from pg_catalog.pg_class as c
    where c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
    union all
    select p.pronamespace, p.proname, ''
    from pg_catalog.pg_proc as p
) as i (schema, name, kind) on i.schema = n.oid
group by s.nr, s.name, n.oid
order by s.nr;
