/*
 * Ends the sessions that write chunks of one table; one row per session.
 *
 * %(name)s -- their application_name.
 */
select pg_catalog.pg_terminate_backend(a.pid)
from pg_catalog.pg_stat_activity a
where a.datname = pg_catalog.current_database()
    and a.application_name = %(name)s
    and a.usename = current_user
    and a.pid <> pg_catalog.pg_backend_pid()
