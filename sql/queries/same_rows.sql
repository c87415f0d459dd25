-- Tables here that have rows in common with some of %(names)s: these, their partitions, and the tables
-- of which they are partitions.
select distinct r.name
from pg_catalog.unnest(%(names)s::text[]) as t (name)
    cross join lateral (select londiste.find_table_oid(t.name)) as o (oid)
    cross join lateral (
        select t.name
        union all
        select n.nspname::text || '.' || c.relname
        from (
            select p.relid::oid from pg_catalog.pg_partition_ancestors(o.oid) as p
            union select p.relid::oid from pg_catalog.pg_partition_tree(o.oid) as p
        ) as p (relid)
            join pg_catalog.pg_class as c on c.oid = p.relid
            join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
    ) as r (name)
