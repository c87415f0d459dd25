-- Tries to become the one process that does a job in this database; the lock lives as long as the
-- session.  Parameter: name of the job.
select pg_catalog.pg_try_advisory_lock(
    pg_catalog.hashtextextended('londiste ' operator(pg_catalog.||) %s::pg_catalog.text, 0)
)
