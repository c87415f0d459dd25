-- Deferrable triggers of the local tables of a queue that fire for replicated rows: table, trigger.
select n.nspname, c.relname, g.tgname
from londiste.table_info as t
    join pg_catalog.pg_trigger as g
        on g.tgrelid = londiste.find_table_oid(coalesce(t.dest_table, t.table_name))
    join pg_catalog.pg_class as c on c.oid = g.tgrelid
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where t.queue_name = %(queue)s
    and t.local
    and g.tgdeferrable
    and g.tgenabled in ('A', 'R')
    and g.tgconstrindid = 0
order by 1, 2, 3
