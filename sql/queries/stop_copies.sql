/*
 * Asks the copies of a queue's tables to stop; the local tables that are not in sync.
 *
 * %(queue)s -- the queue.
 */
select coalesce(t.dest_table, t.table_name) as dest, londiste.copy_stop(t.queue_name, t.table_name)
from londiste.table_info t
where t.queue_name = %(queue)s and t.local and t.merge_state is distinct from 'ok'
