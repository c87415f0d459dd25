-- The session that holds one of Londiste's advisory locks, the oldest first.
-- Parameters: job, the name of what one process does; or key, of one number; or relation and number, of
-- two (number null: any).
-- Every role can take an advisory lock: entitled -- whether the session's role may run a worker.
-- own -- it has the name of this session, which tells processes apart if it has a process id and a host.
select
    a.pid,
    coalesce(a.client_hostname, host(a.client_addr), 'local socket') as client,
    a.application_name,
    a.usename,
    a.backend_start,
    a.application_name = own.application_name and a.usesysid = own.usesysid as own,
    coalesce((
        select pg_catalog.pg_has_role(a.usesysid, r.oid,
            -- As londiste._acts_as_caller().
            case when pg_catalog.current_setting('server_version_num')::int4 < 160000 then 'MEMBER' else 'USAGE, SET' end)
        from pg_catalog.pg_roles r where r.rolname = 'pgq_admin'), false)
    or coalesce((
        -- Who installed the SQL owns it, and needs no membership.
        select pg_catalog.pg_has_role(a.usesysid, n.nspowner, 'USAGE')
        from pg_catalog.pg_namespace n where n.nspname = 'pgq'), false) as entitled
from pg_catalog.pg_locks l
join pg_catalog.pg_stat_activity a on a.pid = l.pid
join pg_catalog.pg_stat_activity own on own.pid = pg_catalog.pg_backend_pid()
where l.locktype = 'advisory'
    and l.granted
    and l.pid <> pg_catalog.pg_backend_pid()
    and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
    and case l.objsubid
        when 1 then ((l.classid::int8 << 32) | l.objid::int8) = coalesce(
            %(key)s::int8, pg_catalog.hashtextextended('londiste ' || %(job)s::text, 0))
        else l.classid = pg_catalog.to_regclass(%(relation)s)::oid
            and (%(number)s::int8 is null or l.objid::int8 = %(number)s::int8)
    end
order by a.backend_start
