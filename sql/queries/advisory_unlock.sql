/* Gives the session lock back. */
select pg_catalog.pg_advisory_unlock(%s)
