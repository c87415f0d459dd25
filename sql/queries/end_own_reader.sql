-- Ends the session that holds a job of this database, if it was opened by the very process that asks
-- now: it has the same application_name, which ends with a token of the process.  Its client has
-- lost it.  Waits a little until it is gone.
-- %(job)s -- name of the job.
select pg_catalog.pg_terminate_backend(a.pid, 1000)
from pg_catalog.hashtextextended('londiste ' || %(job)s::text, 0) as k(key)
join pg_catalog.pg_locks l
    on l.locktype = 'advisory'
    and l.granted
    and l.objsubid = 1
    and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
    and ((l.classid::int8 << 32) | l.objid::int8) = k.key
join pg_catalog.pg_stat_activity a on a.pid = l.pid
join pg_catalog.pg_stat_activity own on own.pid = pg_catalog.pg_backend_pid()
where a.pid <> own.pid
    and a.application_name = own.application_name
    and a.usesysid = own.usesysid
