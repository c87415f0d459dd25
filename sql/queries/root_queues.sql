-- Queues whose root is in this database.
select n.queue_name from pgq_node.node_info as n where n.node_type = 'root' order by n.queue_name
