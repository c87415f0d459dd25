-- Tries to become the one worker of a queue in this database; the lock lives as long as the
-- session.  Parameter: queue name.
select pg_catalog.pg_try_advisory_lock(
    pg_catalog.hashtextextended('londiste worker ' || %s::text, 0)
)
