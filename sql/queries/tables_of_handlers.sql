/*
 * Local tables of all queues that have a handler and are not partitioned.
 *
 * name -- schema.name in this database; children: other tables inherit from it.
 */
select coalesce(t.dest_table, t.table_name) as name, t.table_attrs as attrs,
    n.node_type = 'root' as root,
    exists (select from pg_catalog.pg_inherits as i where i.inhparent = c.oid) as children
from londiste.table_info as t
    join pgq_node.node_info as n on n.queue_name = t.queue_name
    join pg_catalog.pg_class as c
        on c.oid = londiste.find_rel_oid(coalesce(t.dest_table, t.table_name), 'r')
where t.local and t.table_attrs like '%handler=%'
