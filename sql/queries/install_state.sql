-- What a database has of the component (and schema) %(schema)s, in one row.
--   schema_exists   there is such a schema
--   extension       name of the extension that owns it, or null
--   has_ledger      the schema has our table installed_file
--   names           their names: tables and functions
select
    n.oid is not null as schema_exists,
    (
        select e.extname
        from pg_catalog.pg_extension as e
        where e.extname = %(schema)s
            or exists (
                select
                from pg_catalog.pg_depend as d
                where d.classid = 'pg_catalog.pg_namespace'::regclass
                    and d.objid = n.oid
                    and d.refclassid = 'pg_catalog.pg_extension'::regclass
                    and d.refobjid = e.oid
                    and d.deptype = 'e'
            )
        order by e.extname
        limit 1
    ) as extension,
    exists (
        select
        from pg_catalog.pg_class as c
        where c.relnamespace = n.oid and c.relname = 'installed_file' and c.relkind = 'r'
    ) as has_ledger,
    array(
        select c.relname::text
        from pg_catalog.pg_class as c
        where c.relnamespace = n.oid and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
        union
        select p.proname::text
        from pg_catalog.pg_proc as p
        where p.pronamespace = n.oid
        order by 1
    ) as names
from (select) as one
left join pg_catalog.pg_namespace as n on n.nspname = %(schema)s;
