-- Sessions of this program in this database that have waited for a lock for longer than some seconds, the
-- longest first, each with a transaction at the end of the queue before it: one that waits for no lock.
-- Parameter seconds.
-- age, held -- seconds: of the waiting, and of that transaction; held is null where this role may not see it.
-- table -- whose lock or row it waits for; null: something else.
with recursive waiting as (
    select a.pid, a.application_name, min(w.waitstart) as since
    from pg_catalog.pg_stat_activity a
    join pg_catalog.pg_locks w on w.pid = a.pid and not w.granted
    where a.datname = current_database()
        and a.application_name like 'londiste%%'
        and w.waitstart < clock_timestamp() - make_interval(secs => %(seconds)s)
    group by a.pid, a.application_name
),
-- Beyond five others the search ends.
before as (
    select w.pid, w.pid as behind, b.pid as other, 1 as depth
    from waiting w
    cross join lateral unnest(pg_catalog.pg_blocking_pids(w.pid)) as b(pid)
    union
    select c.pid, c.other, b.pid, c.depth + 1
    from before c
    cross join lateral unnest(pg_catalog.pg_blocking_pids(c.other)) as b(pid)
    where c.depth < 5
)
select distinct on (w.since, w.pid)
    coalesce(w.application_name, '') as session,
    w.pid,
    extract(epoch from clock_timestamp() - w.since)::float8 as age,
    t.name as table,
    case
        when c.other = 0 then coalesce(format('prepared transaction %%s of %%s', p.gid, p.owner),
            'a prepared transaction')
        else format('%%s of %%s, process %%s', coalesce(nullif(a.application_name, ''), 'a session'),
            coalesce(a.usename, a.backend_type, '?'), c.other)
    end as holder,
    extract(epoch from clock_timestamp() - coalesce(a.xact_start, p.prepared))::float8 as held,
    case
        when p.gid is not null then format('commit prepared %%1$L, or rollback prepared %%1$L', p.gid)
        when c.other = 0 then 'select gid, prepared, owner from pg_prepared_xacts'
        else format('select pg_terminate_backend(%%s)', c.other)
    end as remedy
from waiting w
join before c on c.pid = w.pid and pg_catalog.pg_blocking_pids(c.other) = '{}'
left join pg_catalog.pg_stat_activity a on a.pid = c.other
left join lateral (
    select format('%%s.%%s', n.nspname, r.relname) as name
    from pg_catalog.pg_locks l
    join pg_catalog.pg_class r on r.oid = l.relation
    join pg_catalog.pg_namespace n on n.oid = r.relnamespace
    -- Who waits for a transaction holds the lock of the row.
    where l.pid = w.pid and l.relation is not null
        and (not l.granted or l.locktype = 'tuple')
    order by l.granted
    limit 1
) t on true
left join lateral (
    -- What is prepared has no process; it holds its transaction id.
    select x.gid, x.owner, x.prepared
    from pg_catalog.pg_locks n
    join pg_catalog.pg_locks h
        on (h.locktype, h.database, h.relation, h.page, h.tuple, h.virtualxid, h.transactionid, h.classid, h.objid,
            h.objsubid)
        is not distinct from (n.locktype, n.database, n.relation, n.page, n.tuple, n.virtualxid, n.transactionid,
            n.classid, n.objid, n.objsubid)
    join pg_catalog.pg_locks own
        on own.virtualtransaction = h.virtualtransaction and own.locktype = 'transactionid' and own.pid is null
    join pg_catalog.pg_prepared_xacts x on x.transaction = own.transactionid
    where c.other = 0 and n.pid = c.behind and not n.granted and h.granted and h.pid is null
    order by x.prepared
    limit 1
) p on true
order by w.since, w.pid, coalesce(a.xact_start, p.prepared)
