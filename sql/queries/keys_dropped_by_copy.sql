-- Queues whose copy into table %(name)s has dropped its key, and restores it at its end.
select t.queue_name
from londiste.table_info t
where t.local and t.dropped_ddl is not null and coalesce(t.dest_table, t.table_name) = %(name)s
order by 1
