-- Tables of a queue whose name is in the events of another table, which is not replicated: name, table.
-- %(queue)s the queue.
select s.table_name, min(s.stray)
from londiste.stray_captures(%(queue)s, null) as s
where not s.is_renamed
group by s.table_name
order by 1
