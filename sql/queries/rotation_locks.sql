-- Who holds a lock on the event table that a due rotation would empty; the longest transaction first.
-- Parameter queue: one, or null for all.
-- age -- seconds of the transaction; null where this role may not see it.
select
    q.queue_name as queue,
    q.queue_data_pfx || '_' || next.nr as table,
    case
        when l.pid is null then format('prepared transaction %%s of %%s', p.gid, p.owner)
        else format('%%s of %%s, process %%s', coalesce(nullif(a.application_name, ''), 'a session'),
            coalesce(a.usename, a.backend_type), l.pid)
    end as name,
    extract(epoch from clock_timestamp() - min(coalesce(a.xact_start, p.prepared)))::float8 as age,
    case
        when l.pid is null then format('commit prepared %%1$L, or rollback prepared %%1$L', p.gid)
        else format('select pg_terminate_backend(%%s)', l.pid)
    end as remedy
from pgq.queue q
cross join lateral (select (q.queue_cur_table + 1) %% q.queue_ntables as nr) as next
join pg_catalog.pg_locks l
    on l.locktype = 'relation'
    and l.granted
    and l.relation = to_regclass(q.queue_data_pfx || '_' || next.nr)
    and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
    and l.pid is distinct from pg_backend_pid()
left join pg_catalog.pg_stat_activity a on a.pid = l.pid
left join pg_catalog.pg_locks x
    -- What is prepared has no process; it holds its transaction id.
    on l.pid is null and x.pid is null and x.virtualtransaction = l.virtualtransaction
    and x.locktype = 'transactionid'
left join pg_catalog.pg_prepared_xacts p on p.transaction = x.transactionid
where (%(queue)s::text is null or q.queue_name = %(queue)s::text)
    and q.queue_switch_step2 is not null
    and (
        q.queue_switch_time + q.queue_rotation_period < now()
        or q.queue_switch_time > now() + q.queue_rotation_period
    )
    -- No consumer needs the table.
    and not exists (
        select
        from pgq.subscription s
        join pgq.tick t on t.tick_queue = s.sub_queue and t.tick_id = s.sub_last_tick
        where s.sub_queue = q.queue_id
            and txid_snapshot_xmin(t.tick_snapshot) <= q.queue_switch_step2
    )
group by q.queue_name, q.queue_data_pfx, next.nr, l.pid, a.application_name, a.usename, a.backend_type,
    p.gid, p.owner
order by q.queue_name, age desc nulls last
