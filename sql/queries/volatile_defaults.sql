-- Columns of table %(schema)s.%(name)s that are not %(given)s and get other values on each node;
-- function: of a user, which the default calls; certain: they do whatever that function does.
select
    a.attname::text as name,
    f.proname::text as function,
    a.attidentity <> '' or pg_catalog.pg_get_expr(d.adbin, d.adrelid) ~*
        '(nextval|now|clock_timestamp|random|uuid\w*|txid_current)\(|current_(date|time)|localtime'
        as certain
from pg_catalog.pg_attribute a
join pg_catalog.pg_class c on c.oid = a.attrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
left join pg_catalog.pg_depend e
    on e.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass and e.objid = d.oid
    and e.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass
left join pg_catalog.pg_proc f on f.oid = e.refobjid
where n.nspname = %(schema)s and c.relname = %(name)s
    and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
    and a.attname <> all (%(given)s::name[])
    and (a.attidentity <> '' or d.oid is not null)
order by a.attnum, 2
