-- Tables below a root that lack rows: name, and the partition that was detached; '': another table
-- has the name.  %(queue)s the queue.
select r.table_name, ''
from londiste.replaced_tables(%(queue)s) as r
union all
select d.table_name, d.partition
from londiste.detached_partitions(%(queue)s) as d
order by 1, 2;
