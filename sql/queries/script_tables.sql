/*
 * The tables of this database that are replicated, and those in their trees, with their queues.
 */
with recursive tree (queue_name, oid) as (
    select t.queue_name, londiste.find_table_oid(coalesce(t.dest_table, t.table_name))
    from londiste.table_info t
    where t.local
    union
    select tree.queue_name, i.inhrelid
    from tree
        join pg_catalog.pg_inherits i on i.inhparent = tree.oid
)
select tree.queue_name, c.oid::int8, n.nspname, c.relname
from tree
    join pg_catalog.pg_class c on c.oid = tree.oid
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p')
order by c.oid, tree.queue_name
