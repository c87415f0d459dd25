-- Other queues whose root is this node, and that capture tables by their names here, %(dests)s, NULL: all;
-- %(queue)s the queue that asks, which may be a part of them.  With the name in the queue, and here.
select t.queue_name, t.table_name, coalesce(t.dest_table, t.table_name) as dest
from londiste.table_info as t
    join pgq_node.node_info as n on n.queue_name = t.queue_name and n.node_type = 'root'
    left join pgq_node.node_info as a on a.queue_name = %(queue)s
where t.local
    and t.queue_name <> %(queue)s
    and a.combined_queue is distinct from t.queue_name
    and (%(dests)s::text[] is null or coalesce(t.dest_table, t.table_name) = any (%(dests)s::text[]))
order by t.queue_name, t.table_name
