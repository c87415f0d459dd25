/* True when nobody in this database holds the lock with this key. */
select pg_catalog.pg_try_advisory_xact_lock(%s)
