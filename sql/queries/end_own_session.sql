-- Ends a session of this user in this database that an application has lost, if it is still there.
-- A process id may be another process's by now: the session is older than the one that asks.
select pg_catalog.pg_terminate_backend(a.pid)
from pg_catalog.pg_stat_activity a
join pg_catalog.pg_stat_activity own on own.pid = pg_catalog.pg_backend_pid()
where a.pid = %(pid)s
    and a.application_name = pg_catalog.left(%(name)s, 63)
    and a.usesysid = own.usesysid
    and a.datid = own.datid
    and a.backend_start < own.backend_start
