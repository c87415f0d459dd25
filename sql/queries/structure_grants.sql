/*
 * What others than the owner may do with tables, with single columns, and with the sequences of
 * their columns, with those that defaults name.
 *
 * %(oids)s -- the tables; grantee NULL is PUBLIC.
 */
with own as (
    select c.oid, c.oid as of_table, null::text as column_name, null::text as sequence_schema,
        null::text as sequence_name, c.relacl as acl, c.relowner as owner
    from pg_catalog.pg_class c
    where c.oid = any(%(oids)s::oid[])
    union all
    select c.oid, c.oid, a.attname, null, null, a.attacl, c.relowner
    from pg_catalog.pg_class c
    join pg_catalog.pg_attribute a on a.attrelid = c.oid and not a.attisdropped
    where c.oid = any(%(oids)s::oid[])
        and a.attacl is not null
    union all
    select distinct s.oid, d.refobjid, null, sn.nspname::text, s.relname::text, s.relacl, s.relowner
    from pg_catalog.pg_depend d
    join pg_catalog.pg_class s on s.oid = d.objid and s.relkind = 'S'
    join pg_catalog.pg_namespace sn on sn.oid = s.relnamespace
    where d.refobjid = any(%(oids)s::oid[])
        and d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
        and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
        and d.deptype in ('a', 'i')
    union all
    select distinct s.oid, e.adrelid, null, sn.nspname::text, s.relname::text, s.relacl, s.relowner
    from pg_catalog.pg_attrdef e
    join pg_catalog.pg_depend d
        on d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass and d.objid = e.oid
            and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
    join pg_catalog.pg_class s on s.oid = d.refobjid and s.relkind = 'S'
    join pg_catalog.pg_namespace sn on sn.oid = s.relnamespace
    where e.adrelid = any(%(oids)s::oid[])
        and not exists (
            select from pg_catalog.pg_depend o
            where o.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and o.objid = s.oid
                and o.refobjid = e.adrelid and o.refobjsubid > 0 and o.deptype in ('a', 'i'))
)
select
    o.of_table::int8 as oid,
    o.column_name::text as "column",
    o.sequence_schema,
    o.sequence_name,
    r.rolname::text as grantee,
    x.privilege_type::text as privilege,
    x.is_grantable as grantable
from own o
cross join lateral pg_catalog.aclexplode(o.acl) x
left join pg_catalog.pg_roles r on r.oid = x.grantee
where x.grantee <> o.owner
order by 1, 3 nulls first, 4 nulls first, 2 nulls first, 5 nulls first, 7, 6
