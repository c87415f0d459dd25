-- The queues of which this database is a node.
select queue_name from pgq_node.node_info order by queue_name;
