/*
 * The local tables of a queue, by their names in this database.
 *
 * %(queue)s -- the queue.
 */
select coalesce(t.dest_table, t.table_name) as dest
from londiste.table_info t
where t.queue_name = %(queue)s and t.local
