-- Tables that this database has in a queue, as they are named here; copying: a copy has dropped
-- their keys and restores them.
select coalesce(t.dest_table, t.table_name) as name, t.dropped_ddl is not null as copying
from londiste.table_info t
where t.local
