-- Other registrations, of any queue, that fill a table of this database.
-- Queues that merge into the one that asks are its own parts.
-- The third column: whether its changes may be applied now, behind its copy.
-- %(dest)s its name here, %(queue)s and %(table)s the registration that asks.
select t.queue_name, t.table_name, coalesce(t.merge_state, 'in-copy') <> 'in-copy'
from londiste.table_info t
where t.local
    and coalesce(t.dest_table, t.table_name) = %(dest)s
    and (t.queue_name, t.table_name) <> (%(queue)s, %(table)s)
    and (t.queue_name = %(queue)s
         or exists (select from pgq_node.node_info n
                    where n.queue_name = t.queue_name and n.node_type = 'leaf'
                        and n.combined_queue is distinct from %(queue)s))
order by t.queue_name, t.table_name
