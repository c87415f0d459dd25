-- Shares the lock of a job with other processes that share it; it lives as long as the session.
-- Parameter: name of the job.
select pg_catalog.pg_try_advisory_lock_shared(
    pg_catalog.hashtextextended('londiste ' operator(pg_catalog.||) %s::pg_catalog.text, 0)
)
