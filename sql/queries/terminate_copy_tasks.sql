/*
 * Ends the sessions that write chunks of some tables; one row per session.
 *
 * %(names)s -- their application_names.
 */
select pg_catalog.pg_terminate_backend(a.pid)
from pg_catalog.pg_stat_activity a
where a.datname = pg_catalog.current_database()
    and a.application_name = any(%(names)s::text[])
    and a.usename = current_user
    and a.pid <> pg_catalog.pg_backend_pid()
