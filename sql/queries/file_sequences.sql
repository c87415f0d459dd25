/*
 * The sequences of a database that could be replicated, with the tables whose columns use them.
 *
 * users -- by a serial or identity column, or by a default, also of a partition; none if this role
 *     may not read the sequence.
 */
select
    n.nspname::text as schema,
    c.relname::text as name,
    array(
        select distinct tn.nspname || '.' || t.relname
        from (
            select d.refobjid as relid
            from pg_catalog.pg_depend d
            where d.classid = 'pg_catalog.pg_class'::regclass
                and d.objid = c.oid
                and d.refclassid = 'pg_catalog.pg_class'::regclass
                and d.refobjsubid > 0
                and d.deptype in ('a', 'i')
            union
            select e.adrelid
            from pg_catalog.pg_depend d
            join pg_catalog.pg_attrdef e on e.oid = d.objid
            where d.classid = 'pg_catalog.pg_attrdef'::regclass
                and d.refclassid = 'pg_catalog.pg_class'::regclass
                and d.refobjid = c.oid
        ) f
        cross join lateral (
            select f.relid
            union
            select a.relid from pg_catalog.pg_partition_ancestors(f.relid) a
        ) r
        join pg_catalog.pg_class t on t.oid = r.relid
        join pg_catalog.pg_namespace tn on tn.oid = t.relnamespace
        -- The planner asks in any order; the function fails for what is no sequence.
        where case c.relkind when 'S' then pg_catalog.has_sequence_privilege(c.oid, 'select') end
    ) as users
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'S'
    and c.relpersistence <> 't'
    and n.nspname not in ('information_schema', 'pgq', 'pgq_ext', 'pgq_coop', 'pgq_node',
                          'londiste', 'londiste_capture')
    and n.nspname !~ '^pg_'
    and pg_catalog.strpos(n.nspname::text, '.') = 0
order by 1, 2
