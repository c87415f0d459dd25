-- Those of the tables %(names)s whose key and indexes a copy has dropped, and restores at its end.
select t.queue_name, t.table_name, coalesce(t.dest_table, t.table_name) as dest
from londiste.table_info t
where t.local and t.dropped_ddl is not null
    and coalesce(t.dest_table, t.table_name) = any (%(names)s::text[])
order by 1, 2
limit 1
