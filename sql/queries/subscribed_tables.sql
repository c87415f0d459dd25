-- Tables into which subscriptions of PostgreSQL write, with partitions and the tables above, and one of them.
select n.nspname::text as schema, c.relname::text as name, min(s.subname)::text as subscription
from pg_catalog.pg_subscription_rel as a
    join pg_catalog.pg_subscription as s on s.oid = a.srsubid
    cross join lateral (
        select a.srrelid
        union select p.relid::oid from pg_catalog.pg_partition_ancestors(a.srrelid) as p
        union select p.relid::oid from pg_catalog.pg_partition_tree(a.srrelid) as p
    ) as r (relid)
    join pg_catalog.pg_class as c on c.oid = r.relid
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
group by n.nspname, c.relname
order by 1, 2
