-- The tables that were copied to this node, by the names %(tables)s that they have here: name, oid
-- of the copied table, its present schema and name (NULL: it was dropped).  %(queue)s the queue.
-- As londiste._replaced(): after a restore from a dump the oids say nothing.
select coalesce(t.dest_table, t.table_name), v.relid::int8, n.nspname, c.relname
from londiste.table_info as t
    join londiste.table_version as v using (queue_name, table_name)
    left join pg_catalog.pg_class as c on c.oid = v.relid
    left join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where t.queue_name = %(queue)s
    and t.local
    and t.merge_state = 'ok'
    and v.home = 'londiste.table_info'::pg_catalog.regclass
    and coalesce(t.dest_table, t.table_name) = any(%(tables)s::text[])
