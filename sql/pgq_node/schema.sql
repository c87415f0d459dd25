-- The cascade: which databases share a queue, who reads from whom, how far everybody is.
create schema if not exists pgq_node;
comment on schema pgq_node is 'cascade of nodes that share a queue';
