/*
 * Whether this session is now the one that copies tables of a queue into this database.
 *
 * %(queue)s -- the queue.  Held until the session ends.
 */
select pg_catalog.pg_try_advisory_lock(
    pg_catalog.hashtextextended('londiste copy ' || %(queue)s::text, 0)
)
