/*
 * The tables of this database that a queue's root replicates, and those in their trees.
 *
 * %(queue)s -- the queue.
 */
with recursive tree (oid) as (
    select londiste.find_table_oid(coalesce(t.dest_table, t.table_name))
    from londiste.table_info t
    where t.queue_name = %(queue)s
        and t.local
    union
    select i.inhrelid
    from tree
        join pg_catalog.pg_inherits i on i.inhparent = tree.oid
)
select c.oid::int8, n.nspname, c.relname
from tree
    join pg_catalog.pg_class c on c.oid = tree.oid
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p')
order by c.oid
