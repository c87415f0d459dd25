-- The script of name %(name)s as other queues have brought it into this database, unless it was
-- skipped: queue, text, conditions, and whether the queue's node here is its root.
select a.queue_name as queue, a.execute_sql as text, a.execute_attrs as attrs,
    n.node_type = 'root' as root
from londiste.applied_execute a
    join pgq_node.node_info n on n.queue_name = a.queue_name
    left join londiste.script_state s
        on s.queue_name = a.queue_name and s.execute_file = a.execute_file
where a.execute_file = %(name)s
    and a.queue_name <> %(queue)s
    and s.state is distinct from 'skipped'
order by a.execute_time, a.queue_name
