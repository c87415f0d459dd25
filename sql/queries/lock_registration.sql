/*
 * Locks the registration of a table until the end of the transaction.
 */
select 1
from londiste.table_info t
where t.queue_name = %(queue)s and t.table_name = %(table)s
for update
