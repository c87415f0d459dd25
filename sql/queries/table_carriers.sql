-- Other queues whose leaves are in this database and that carry a table, with the same combined queue.
-- The table need not be added there.
-- %(dest)s its name here, %(queue)s and %(combined)s the queue that asks, and its combined queue.
select distinct t.queue_name
from londiste.table_info t
join pgq_node.node_info n using (queue_name)
where t.queue_name <> %(queue)s
    and n.node_type = 'leaf'
    and n.combined_queue is not distinct from %(combined)s
    and coalesce(t.dest_table, t.table_name) = %(dest)s
order by t.queue_name
