/*
 * Whether a copy is unfinished, or has dropped foreign keys in this database that are not restored.
 *
 * %(queue)s -- the queue of the copies.
 */
select
    exists (
        select from londiste.table_info t
        where t.queue_name = %(queue)s and t.local and t.merge_state is distinct from 'ok'),
    exists (select from londiste.pending_fkeys)
