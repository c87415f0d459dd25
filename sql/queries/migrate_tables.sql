/*
 * Tables outside of the schemas of the system and of replication and of extensions.
 *
 * kind -- r, p partitioned; persistence -- p, u unlogged; partition -- of another one.
 * keyed -- has a primary key, or another unique index that is its replica identity.
 * mine -- this session may act as its owner; always -- triggers that fire in every session.
 */
select
    n.nspname::text as schema,
    c.relname::text as name,
    c.relkind::text as kind,
    c.relpersistence::text as persistence,
    c.relispartition as partition,
    greatest(c.reltuples, 0)::int8 as rows,
    pg_catalog.pg_total_relation_size(c.oid)::int8 as bytes,
    exists (
        select from pg_catalog.pg_index i
        where i.indrelid = c.oid and i.indisprimary) as keyed,
    pg_catalog.pg_has_role(c.relowner, 'USAGE') as mine,
    pg_catalog.pg_get_userbyid(c.relowner)::text as owner,
    array(
        select t.tgname::text from pg_catalog.pg_trigger t
        join pg_catalog.pg_proc p on p.oid = t.tgfoid
        join pg_catalog.pg_namespace f on f.oid = p.pronamespace
        where t.tgrelid = c.oid and not t.tgisinternal and t.tgenabled in ('A', 'R')
            and f.nspname not in ('pgq', 'londiste')
        order by 1) as always
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and c.relpersistence <> 't'
    and n.nspname !~ '^pg_'
    and n.nspname not in
        ('information_schema', 'pgq', 'pgq_ext', 'pgq_coop', 'pgq_node', 'londiste')
    and not exists (
        select from pg_catalog.pg_depend d
        where d.classid = c.tableoid and d.objid = c.oid and d.deptype = 'e')
order by 1, 2
