/*
 * Transaction-id age of the oldest event table of a queue, and the age at which autovacuum should
 * have frozen it.
 *
 * %(queue)s -- the queue.
 */
select
    coalesce(max(greatest(age(c.relfrozenxid), age(t.relfrozenxid))), 0)::int8,
    current_setting('autovacuum_freeze_max_age')::int8
from pgq.queue q
join pg_inherits i on i.inhparent = to_regclass(q.queue_data_pfx)
join pg_class c on c.oid = i.inhrelid
left join pg_class t on t.oid = c.reltoastrelid
where q.queue_name = %(queue)s
