/*
 * Columns of tables, in their order.
 *
 * %(oids)s -- the tables.
 * collation -- NULL when it is that of the type; storage likewise; compression: pglz, lz4 or NULL.
 * default_builtin -- the default depends on nothing but PostgreSQL itself (and, for a generated
 *     column, other columns of the table), so it works in another database.
 * not_null_name ... -- of the constraint, which has a name since PostgreSQL 18.
 */
select
    a.attrelid::int8 as oid,
    a.attname::text as name,
    pg_catalog.format_type(a.atttypid, a.atttypmod) as type,
    case when a.attcollation <> t.typcollation
         then pg_catalog.quote_ident(cn.nspname) || '.' || pg_catalog.quote_ident(co.collname)
    end as collation,
    a.attnotnull as not_null,
    k.conname::text as not_null_name,
    coalesce(k.connoinherit, false) as not_null_no_inherit,
    coalesce(k.convalidated, true) as not_null_valid,
    coalesce(k.conislocal, a.attislocal) as not_null_local,
    pg_catalog.obj_description(k.oid, 'pg_constraint') as not_null_comment,
    pg_catalog.pg_get_expr(d.adbin, d.adrelid) as "default",
    not exists (
        select from pg_catalog.pg_depend dep
        where dep.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass
            and dep.objid = d.oid
            and not (dep.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
                     and dep.refobjid = a.attrelid)
    ) as default_builtin,
    a.attidentity::text as identity,
    a.attgenerated::text as generated,
    case when a.attstorage <> t.typstorage then
        case a.attstorage when 'p' then 'plain' when 'e' then 'external'
            when 'm' then 'main' else 'extended' end
    end as storage,
    case pg_catalog.to_jsonb(a) ->> 'attcompression' when 'p' then 'pglz' when 'l' then 'lz4' end
        as compression,
    case when a.attstattarget >= 0 then a.attstattarget::int4 end as statistics,
    -- Only those that a user may set: a server may keep others of its own here.
    array(
        select o from pg_catalog.unnest(a.attoptions) o
        where o like 'n\_distinct%%'
    ) as options,
    pg_catalog.col_description(a.attrelid, a.attnum) as comment,
    a.attislocal as is_local,
    a.attinhcount > 0 as inherited
from pg_catalog.pg_attribute a
join pg_catalog.pg_type t on t.oid = a.atttypid
left join pg_catalog.pg_collation co on co.oid = a.attcollation
left join pg_catalog.pg_namespace cn on cn.oid = co.collnamespace
left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
left join pg_catalog.pg_constraint k
    on k.conrelid = a.attrelid and k.contype = 'n' and k.conkey = array[a.attnum]
where a.attrelid = any(%(oids)s::oid[])
    and a.attnum > 0
    and not a.attisdropped
order by a.attrelid, a.attnum
