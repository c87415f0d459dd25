/*
 * Pairs of tables of this database whose changes have an order: schema and name of each, and why.
 *
 * foreign key, inheritance, partition (and its partitioned table), rule (the rule of one table writes
 * or reads the other one), sequence (of a column of one table, used by a default of the other one).
 * A key of a partition counts for its partitioned table, too.  Reads nothing of Londiste.
 */
with pairs (one, other, kind) as (
    select k.conrelid, k.confrelid, 'foreign key'
    from pg_catalog.pg_constraint k
    where k.contype = 'f'
    union
    select i.inhrelid, i.inhparent, case when c.relispartition then 'partition' else 'inheritance' end
    from pg_catalog.pg_inherits i join pg_catalog.pg_class c on c.oid = i.inhrelid
    union
    select r.ev_class, d.refobjid, 'rule'
    from pg_catalog.pg_rewrite r
        join pg_catalog.pg_depend d
            on d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass and d.objid = r.oid
            and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
    union
    select f.adrelid, o.refobjid, 'sequence'
    from pg_catalog.pg_attrdef f
        join pg_catalog.pg_depend d
            on d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass and d.objid = f.oid
            and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
        join pg_catalog.pg_depend o
            on o.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and o.objid = d.refobjid
            and o.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
            and o.deptype in ('a', 'i')
        join pg_catalog.pg_class s on s.oid = d.refobjid and s.relkind = 'S'
)
select distinct an.nspname::text, a.relname::text, bn.nspname::text, b.relname::text, p.kind
from pairs p
    join pg_catalog.pg_class p1 on p1.oid = p.one
    join pg_catalog.pg_class p2 on p2.oid = p.other
    join pg_catalog.pg_class a on a.oid in (
        p1.oid, case when p1.relispartition then pg_catalog.pg_partition_root(p1.oid) end)
    join pg_catalog.pg_class b on b.oid in (
        p2.oid, case when p2.relispartition then pg_catalog.pg_partition_root(p2.oid) end)
    join pg_catalog.pg_namespace an on an.oid = a.relnamespace
    join pg_catalog.pg_namespace bn on bn.oid = b.relnamespace
where a.oid <> b.oid and a.relkind in ('r', 'p') and b.relkind in ('r', 'p')
order by 1, 2, 3, 4, 5
