/*
 * What schemas contain: the quoted schema, and the kind and identity of each object in it.
 *
 * %(schemas)s their quoted names.
 *
 * Of an object that goes with another one, as a partition with its table, that one is listed.
 */
with recursive inside (schema_id, classid, objid) as (
    select d.refobjid, d.classid, d.objid
    from pg_catalog.pg_depend d
    join pg_catalog.pg_namespace n on n.oid = d.refobjid
    where d.refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass
        and d.deptype = 'n'
        and pg_catalog.quote_ident(n.nspname) = any(%(schemas)s)
    union
    select i.schema_id, d.refclassid, d.refobjid
    from inside i
    join pg_catalog.pg_depend d on d.classid = i.classid and d.objid = i.objid
    where d.deptype in ('a', 'i', 'e')
        and d.refclassid <> 'pg_catalog.pg_namespace'::pg_catalog.regclass
)
select pg_catalog.quote_ident(n.nspname), o.type, o.identity
from inside i
join pg_catalog.pg_namespace n on n.oid = i.schema_id,
    pg_catalog.pg_identify_object(i.classid, i.objid, 0) o
where not exists (
    select from pg_catalog.pg_depend d
    where d.classid = i.classid and d.objid = i.objid and d.deptype in ('a', 'i', 'e')
        -- The columns of a partition key depend on their table.
        and d.objsubid = 0
        and d.refclassid <> 'pg_catalog.pg_namespace'::pg_catalog.regclass)
order by 1, 2, 3
