/*
 * The objects that users can create and drop, outside of the schemas of the system and of
 * replication, without members of extensions and parts of other objects.
 *
 * kind -- as it is written behind DROP; identity -- quoted and qualified; class_id, object_id.
 */
with ours (name) as (
    values ('information_schema'), ('pgq'), ('pgq_ext'), ('pgq_coop'), ('pgq_node'), ('londiste'),
        ('londiste_capture'), ('londiste_apply')
), spaces as (
    select n.oid, n.nspname from pg_catalog.pg_namespace n
    where n.nspname !~ '^pg_' and n.nspname not in (select o.name from ours o)
), objects (classid, objid) as (
    select 'pg_catalog.pg_namespace'::pg_catalog.regclass, s.oid from spaces s
    where s.nspname <> 'public'
    union all
    select c.tableoid, c.oid from pg_catalog.pg_class c join spaces s on s.oid = c.relnamespace
    where c.relkind in ('r', 'p', 'S', 'v', 'm')
    union all
    select t.tableoid, t.oid from pg_catalog.pg_type t join spaces s on s.oid = t.typnamespace
    where t.typtype in ('e', 'd', 'r')
        or t.typtype = 'c' and exists (
            select from pg_catalog.pg_class c where c.oid = t.typrelid and c.relkind = 'c')
    union all
    select p.tableoid, p.oid from pg_catalog.pg_proc p join spaces s on s.oid = p.pronamespace
    union all
    select x.tableoid, x.oid from pg_catalog.pg_extension x
)
select i.type as kind, i.identity, o.classid::pg_catalog.oid as class_id, o.objid as object_id
from objects o, pg_catalog.pg_identify_object(o.classid, o.objid, 0) i
where not exists (
    select from pg_catalog.pg_depend d
    where d.classid = o.classid and d.objid = o.objid and d.deptype in ('e', 'i', 'a')
        -- The columns of a partition key depend on their table.
        and d.objsubid = 0
        -- A sequence or partition goes with its table; other automatic dependencies are objects'.
        and (d.deptype <> 'a' or d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass))
order by i.type, i.identity
