-- The node that a queue belongs to, when the database is part of a cascade.  %(queue)s
select node_name, node_type from pgq_node.node_info where queue_name = %(queue)s;
