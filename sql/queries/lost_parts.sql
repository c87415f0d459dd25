-- Queues whose leaf in this database would copy a part of a table, and has lost its position.
-- %(queue)s the queue of the leaf that asks, %(combined)s the queue that it merges into, or null.
-- %(dest)s the table's name here; %(every)s: all leaves that know it copy, not that leaf alone.
select n.queue_name
from pgq_node.node_info n
    join pgq_node.local_state s
        on s.queue_name = n.queue_name and s.consumer_name = n.worker_name
    cross join lateral pgq.get_lost_position(n.queue_name, n.worker_name) l
where n.node_type = 'leaf'
    and l.source = s.provider_node
    and (n.queue_name = %(queue)s
         or %(every)s
            and n.combined_queue is not distinct from %(combined)s
            and exists (select from londiste.table_info t
                        where t.queue_name = n.queue_name
                            and coalesce(t.dest_table, t.table_name) = %(dest)s))
order by n.queue_name
