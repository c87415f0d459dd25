/*
 * Partitions whose partitioned table is in the queue, too: of tables that are added, and those that
 * are already there.  And partitions of added tables that are foreign tables.
 *
 * %(added)s, %(done)s -- names as schema.table, unquoted.
 * partition, above -- names; above_added, partition_added: it is one of those that are added.
 * detach: the statement for a foreign table; NULL for others.
 */
with named as (
    select w.name, w.added, c.oid, c.relispartition, c.relkind
    from (
        select pg_catalog.unnest(%(added)s::text[]), true
        union all
        select pg_catalog.unnest(%(done)s::text[]), false
    ) as w (name, added)
    join pg_catalog.pg_namespace n on n.nspname = pg_catalog.split_part(w.name, '.', 1)
    join pg_catalog.pg_class c
        on c.relnamespace = n.oid
            and c.relname = pg_catalog.substr(w.name, pg_catalog.strpos(w.name, '.') + 1)
    where c.relkind = 'p' or c.relispartition
)
select t.name as partition, p.name as above, t.added as partition_added, p.added as above_added,
    null as detach
from named as t
cross join lateral pg_catalog.pg_partition_ancestors(t.oid) as a (relid)
join named as p on p.oid = a.relid and p.oid <> t.oid
where t.relispartition and (t.added or p.added)
union all
select n.nspname || '.' || f.relname, p.name, false, true,
    pg_catalog.format(
        'alter table %%I.%%I detach partition %%I.%%I', an.nspname, a.relname, n.nspname, f.relname)
from named as p
cross join lateral pg_catalog.pg_partition_tree(p.oid) as t
join pg_catalog.pg_class as f on f.oid = t.relid and f.relkind = 'f'
join pg_catalog.pg_namespace as n on n.oid = f.relnamespace
join pg_catalog.pg_class as a on a.oid = t.parentrelid
join pg_catalog.pg_namespace as an on an.oid = a.relnamespace
where p.added and p.relkind = 'p'
order by 1, 2
