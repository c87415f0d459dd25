-- Waits until no other transaction in this database moves the position of a consumer; the lock
-- lives as long as the transaction.  The session has the search_path of its user.
-- Parameter: name of the position.
select pg_catalog.pg_advisory_xact_lock(
    pg_catalog.hashtextextended('londiste position ' operator(pg_catalog.||) %s::pg_catalog.text, 0)
)
