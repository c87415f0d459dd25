/*
 * Whether the copies of a queue's tables on this node are paused (copy pause).
 *
 * %(queue)s -- the queue.
 */
select exists (
    select from londiste.copy_control as c where c.queue_name = %(queue)s and c.paused
)
