-- Bytes of the event tables of one queue, indexes and all.  %(queue)s -- the queue.
select coalesce(sum(pg_catalog.pg_total_relation_size(i.inhrelid)), 0)::int8
from pgq.queue q
join pg_catalog.pg_inherits i on i.inhparent = pg_catalog.to_regclass(q.queue_data_pfx)
where q.queue_name = %(queue)s;
