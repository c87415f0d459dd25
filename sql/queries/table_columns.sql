/*
 * Columns of one table, in their order.
 *
 * %(oid)s -- the table.
 * identity is 'a' (always), 'd' (by default) or ''; generated is 's' (stored), 'v' (virtual) or ''.
 * plain: the type without domains.  A cast to a domain runs its checks, which may be of any owner.
 * builtin: the type and, for an array, its elements belong to PostgreSQL itself, so that their
 * binary form holds no object number that another database does not know.
 */
select
    a.attname as name,
    a.attnum as number,
    pg_catalog.format_type(a.atttypid, a.atttypmod) as type,
    plain.type as plain,
    a.attnotnull as not_null,
    pg_catalog.pg_get_expr(d.adbin, d.adrelid) as "default",
    a.attidentity::text as identity,
    a.attgenerated::text as generated,
    a.atttypid < 16384 and t.typtype = 'b' as builtin
from pg_catalog.pg_attribute a
join pg_catalog.pg_type t on t.oid = a.atttypid
cross join lateral (
    with recursive down (oid, modifier, is_array) as (
        select a.atttypid, a.atttypmod, false
        union all
        select
            case y.typtype when 'd' then y.typbasetype else e.oid end,
            case y.typtype when 'd' then y.typtypmod else -1 end,
            down.is_array or y.typtype <> 'd'
        from down
        join pg_catalog.pg_type y on y.oid = down.oid
        left join pg_catalog.pg_type e on e.oid = y.typelem and e.typtype = 'd' and y.typlen = -1
        where y.typtype = 'd' or e.oid is not null
    )
    select pg_catalog.format_type(down.oid, down.modifier)
        || case when down.is_array then '[]' else '' end as type
    from down
    join pg_catalog.pg_type y on y.oid = down.oid
    left join pg_catalog.pg_type e on e.oid = y.typelem and e.typtype = 'd' and y.typlen = -1
    where y.typtype <> 'd' and e.oid is null
) as plain
left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = %(oid)s::oid
    and a.attnum > 0
    and not a.attisdropped
order by a.attnum
