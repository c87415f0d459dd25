-- The extensions %(names)s; schema -- NULL: the extension makes its own; relocatable -- to another one.
select x.extname::text as name,
    case when exists (
        select from pg_catalog.pg_depend d
        where d.classid = 'pg_catalog.pg_namespace'::pg_catalog.regclass and d.objid = n.oid
            and d.deptype = 'e' and d.refobjid = x.oid)
    then null else n.nspname::text end as schema,
    x.extrelocatable as relocatable
from pg_catalog.pg_extension x
join pg_catalog.pg_namespace n on n.oid = x.extnamespace
where x.extname = any (%(names)s::name[])
order by 1
