-- Waits until no other transaction in this database moves the position of a consumer; the lock
-- lives as long as the transaction.  Parameter: name of the position.
select pg_catalog.pg_advisory_xact_lock(
    pg_catalog.hashtextextended('londiste position ' || %s::text, 0)
)
