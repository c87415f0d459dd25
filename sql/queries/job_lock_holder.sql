-- The session of the one process that does a job in this database.  Parameter: name of the job.
-- Every role can take an advisory lock: entitled -- whether the session's role may run a worker.
select
    a.pid,
    coalesce(a.client_hostname, host(a.client_addr), 'local socket') as client,
    a.application_name,
    a.usename,
    a.backend_start,
    coalesce((
        select pg_catalog.pg_has_role(a.usesysid, r.oid, 'MEMBER')
        from pg_catalog.pg_roles r where r.rolname = 'pgq_admin'), false)
    or coalesce((
        -- Who installed the SQL owns it, and needs no membership.
        select pg_catalog.pg_has_role(a.usesysid, n.nspowner, 'USAGE')
        from pg_catalog.pg_namespace n where n.nspname = 'pgq_node'), false) as entitled
from pg_catalog.hashtextextended('londiste ' || %s::text, 0) as k(key)
join pg_catalog.pg_locks l
    on l.locktype = 'advisory'
    and l.granted
    and l.objsubid = 1
    and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
    and ((l.classid::int8 << 32) | l.objid::int8) = k.key
join pg_catalog.pg_stat_activity a on a.pid = l.pid
