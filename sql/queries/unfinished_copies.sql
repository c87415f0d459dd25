/*
 * Whether a copy has dropped something in this database that is not restored, or is unfinished.
 *
 * %(queue)s -- the queue of the copies.
 */
select exists (
        select from londiste.table_info t
        where t.queue_name = %(queue)s and t.local and t.merge_state is distinct from 'ok')
    or exists (select from londiste.pending_fkeys)
