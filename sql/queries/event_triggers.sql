-- Event triggers that fire in sessions with session_replication_role = origin, not of extensions;
-- always: in those with replica, too.
select e.evtname::text as name, e.evtenabled = 'A' as always
from pg_catalog.pg_event_trigger e
where e.evtenabled in ('O', 'A')
    and not exists (
        select from pg_catalog.pg_depend d
        where d.classid = e.tableoid and d.objid = e.oid and d.deptype = 'e')
order by 1
