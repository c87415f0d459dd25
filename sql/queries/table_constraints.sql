/*
 * Constraints of one table other than foreign keys: primary key, unique, exclusion, check.
 *
 * %(oid)s -- the table.
 * inherited: it belongs to a parent table and cannot be dropped here.
 * by_index: an existing unique index can become this constraint.
 */
select
    k.conname as name,
    k.contype::text as kind,
    pg_catalog.pg_get_constraintdef(k.oid) as definition,
    k.condeferrable as deferrable,
    k.condeferred as deferred,
    k.convalidated as validated,
    k.coninhcount > 0 or k.conparentid <> 0 as inherited,
    k.contype in ('p', 'u')
        and not coalesce((pg_catalog.to_jsonb(k) ->> 'conperiod')::bool, false) as by_index,
    coalesce(
        (
            select pg_catalog.array_agg(a.attname order by u.position)
            from pg_catalog.unnest(k.conkey) with ordinality as u (attnum, position)
            join pg_catalog.pg_attribute a on a.attrelid = k.conrelid and a.attnum = u.attnum
        ),
        '{}'
    )::text[] as columns,
    pg_catalog.obj_description(k.oid, 'pg_constraint') as comment
from pg_catalog.pg_constraint k
where k.conrelid = %(oid)s::oid
    and k.contype in ('p', 'u', 'x', 'c')
order by k.conname
