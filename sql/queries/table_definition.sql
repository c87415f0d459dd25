/*
 * What is needed to make a table again, one row per column, in their order.
 *
 * %(oid)s -- the table.
 * collation -- NULL when it is that of the type.
 * default_builtin -- the default depends on nothing but PostgreSQL itself (and, for a generated
 *     column, other columns of the table), so it works in another database.
 */
select
    a.attname as name,
    pg_catalog.format_type(a.atttypid, a.atttypmod) as type,
    case when a.attcollation <> t.typcollation
         then pg_catalog.quote_ident(cn.nspname) || '.' || pg_catalog.quote_ident(co.collname)
    end as collation,
    a.attnotnull as not_null,
    pg_catalog.pg_get_expr(d.adbin, d.adrelid) as default_expression,
    not exists (
        select from pg_catalog.pg_depend dep
        where dep.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass
            and dep.objid = d.oid
            and not (dep.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
                     and dep.refobjid = a.attrelid)
    ) as default_builtin,
    a.attidentity::text as identity,
    a.attgenerated::text as generated
from pg_catalog.pg_attribute a
join pg_catalog.pg_type t on t.oid = a.atttypid
left join pg_catalog.pg_collation co on co.oid = a.attcollation
left join pg_catalog.pg_namespace cn on cn.oid = co.collnamespace
left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = %(oid)s::oid
    and a.attnum > 0
    and not a.attisdropped
order by a.attnum
