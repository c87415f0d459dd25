/*
 * Constraints of tables but NOT NULL: key, unique, exclusion, check, foreign key.
 *
 * %(oids)s -- the tables.
 * by_parent -- only inherited: made together with that of the parent, or attached to it.
 * periods -- WITHOUT OVERLAPS or PERIOD.
 */
select
    k.conrelid::int8 as oid,
    k.conname::text as name,
    k.contype::text as kind,
    pg_catalog.pg_get_constraintdef(k.oid) as definition,
    k.convalidated as validated,
    coalesce((pg_catalog.to_jsonb(k) ->> 'conenforced')::bool, true) as enforced,
    coalesce((pg_catalog.to_jsonb(k) ->> 'conperiod')::bool, false) as periods,
    k.conparentid <> 0 as by_parent,
    k.conislocal as is_local,
    fn.nspname::text as to_schema,
    f.relname::text as to_name,
    pg_catalog.obj_description(k.oid, 'pg_constraint') as comment
from pg_catalog.pg_constraint k
left join pg_catalog.pg_class f on f.oid = k.confrelid
left join pg_catalog.pg_namespace fn on fn.oid = f.relnamespace
where k.conrelid = any(%(oids)s::oid[])
    and k.contype in ('p', 'u', 'x', 'c', 'f')
    -- A key that refers to a partitioned table has another one for each of its partitions.
    and not exists (
        select from pg_catalog.pg_constraint o
        where o.oid = k.conparentid and o.conrelid = k.conrelid
    )
order by k.conrelid, k.contype = 'p' desc, k.conname
