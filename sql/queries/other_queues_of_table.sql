-- The other queues of this node that bring rows into a table: a merge of several roots.  A combined queue
-- and its parts bring the same rows.
-- Parameters: name of the table here, name of the queue.
select t.queue_name
from londiste.table_info t
    join pgq_node.node_info n on n.queue_name = t.queue_name
    left join pgq_node.node_info a on a.queue_name = %(queue)s
where coalesce(t.dest_table, t.table_name) = %(dest)s
    and t.queue_name <> %(queue)s
    and t.local
    and n.combined_queue is distinct from %(queue)s
    and a.combined_queue is distinct from t.queue_name
order by t.queue_name
