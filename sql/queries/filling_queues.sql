/*
 * Other queues whose worker on this node writes rows of a table: the table's name there and here, and
 * whether a function of its handler decides which version of a row stays.
 * %(queue)s the queue that asks, whose parts are left out; %(dests)s names of tables here, NULL: all.
 */
select o.queue_name, o.table_name, coalesce(o.dest_table, o.table_name) as dest,
    coalesce(o.table_attrs, '') ~ '(^|&)handler=(multimaster|applyfn)(%%28|&|$)' as decided
from londiste.table_info as o
    join pgq_node.node_info as n on n.queue_name = o.queue_name and n.node_type <> 'root'
where o.local
    and o.queue_name <> %(queue)s
    and n.combined_queue is distinct from %(queue)s
    and (%(dests)s::text[] is null or coalesce(o.dest_table, o.table_name) = any (%(dests)s::text[]))
    and coalesce(o.table_attrs, '') !~ '(^|&)handler=(nop|vtable|qtable|qsplitter)(%%28|&|$)'
order by o.queue_name, o.table_name
