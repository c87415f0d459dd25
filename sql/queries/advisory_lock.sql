/* Takes a session lock that exists in this database only. */
select pg_catalog.pg_advisory_lock(%s)
