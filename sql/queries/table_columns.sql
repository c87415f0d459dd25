/*
 * Columns of one table, in their order.
 *
 * %(oid)s -- the table.
 * identity is 'a' (always), 'd' (by default) or ''; generated is 's' (stored), 'v' (virtual) or ''.
 * builtin: the type and, for an array, its elements belong to PostgreSQL itself, so that their
 * binary form holds no object number that another database does not know.
 */
select
    a.attname as name,
    a.attnum as number,
    pg_catalog.format_type(a.atttypid, a.atttypmod) as type,
    a.attnotnull as not_null,
    pg_catalog.pg_get_expr(d.adbin, d.adrelid) as "default",
    a.attidentity::text as identity,
    a.attgenerated::text as generated,
    a.atttypid < 16384 and t.typtype = 'b' as builtin
from pg_catalog.pg_attribute a
join pg_catalog.pg_type t on t.oid = a.atttypid
left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = %(oid)s::oid
    and a.attnum > 0
    and not a.attisdropped
order by a.attnum
