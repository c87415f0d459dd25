-- Nodes of cascaded queues in this database.
select n.queue_name, n.node_name
from pgq_node.node_info as n
order by n.queue_name;
