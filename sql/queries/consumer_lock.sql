-- Tries to become the one process of a consumer in this database; the lock lives as long as the
-- session.  Parameter: queue and consumer, one text.
select pg_catalog.pg_try_advisory_lock(
    pg_catalog.hashtextextended('londiste consumer ' || %s::text, 0)
)
