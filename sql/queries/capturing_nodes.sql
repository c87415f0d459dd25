-- Queues of roots and branches in this database, and the name of the node if it is a branch.
select n.queue_name, case n.node_type when 'branch' then n.node_name else '' end as branch
from pgq_node.node_info as n
where n.node_type <> 'leaf'
order by n.queue_name
