-- Columns of table %(schema)s.%(name)s that are not %(given)s and get other values on each node.
select a.attname::text as name
from pg_catalog.pg_attribute a
join pg_catalog.pg_class c on c.oid = a.attrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where n.nspname = %(schema)s and c.relname = %(name)s
    and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
    and a.attname <> all (%(given)s::name[])
    and (a.attidentity <> ''
        or pg_catalog.pg_get_expr(d.adbin, d.adrelid) ~*
            '(nextval|now|clock_timestamp|random|uuid\w*|txid_current)\(|current_(date|time)|localtime')
order by a.attnum
