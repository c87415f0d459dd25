-- Captures of a queue, on its root, that do not fire for rows that another queue writes into their
-- tables: table and trigger.  %(queue)s
select n.nspname || '.' || c.relname, t.tgname
from londiste.table_info i
join pgq_node.node_info root on root.queue_name = i.queue_name and root.node_type = 'root'
join pg_catalog.pg_class c on c.oid = to_regclass(
    quote_ident(split_part(coalesce(i.dest_table, i.table_name), '.', 1)) || '.'
    || quote_ident(substr(coalesce(i.dest_table, i.table_name),
        strpos(coalesce(i.dest_table, i.table_name), '.') + 1)))
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_trigger t on t.tgrelid = c.oid and t.tgconstrindid = 0 and t.tgenabled = 'O'
    and (t.tgname = londiste.trigger_name(i.queue_name)
        or starts_with(t.tgname, londiste.trigger_name(i.queue_name) || '_'))
where i.queue_name = %(queue)s and i.local
and exists (
    select 1
    from londiste.table_info o
    join pgq_node.node_info n2 on n2.queue_name = o.queue_name and n2.node_type <> 'root'
    where o.queue_name <> i.queue_name and o.local
    and coalesce(o.dest_table, o.table_name) = coalesce(i.dest_table, i.table_name))
