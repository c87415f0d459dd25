-- Who holds locks on a table, or on any one (schema and name null); the longest transaction first.
-- Parameters: schema, name, writers, prepared.
-- writers -- only who has more than read, of the table and of those that inherit from it.
-- prepared -- only prepared transactions.
-- age -- seconds of the transaction; null where this role may not see it.
select
    case
        when l.pid is null then format('prepared transaction %%s of %%s', p.gid, p.owner)
        else format('%%s of %%s, process %%s',
            coalesce(nullif(a.application_name, ''), 'a session'), a.usename, l.pid)
    end as name,
    extract(epoch from clock_timestamp() - min(coalesce(a.xact_start, p.prepared)))::float8 as age,
    case
        when l.pid is null then format('commit prepared %%1$L, or rollback prepared %%1$L', p.gid)
        else format('select pg_terminate_backend(%%s)', l.pid)
    end as remedy
from pg_catalog.pg_locks l
left join pg_catalog.pg_stat_activity a on a.pid = l.pid
left join pg_catalog.pg_locks x
    -- What is prepared has no process; it holds its transaction id.
    on l.pid is null and x.pid is null and x.virtualtransaction = l.virtualtransaction
    and x.locktype = 'transactionid'
left join pg_catalog.pg_prepared_xacts p on p.transaction = x.transactionid
where l.locktype = 'relation'
    and l.granted
    and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
    and case
        when %(name)s::text is null then l.relation >= 16384  -- the catalog has smaller ones
        else l.relation = to_regclass(format('%%I.%%I', %(schema)s::text, %(name)s::text))
            or %(writers)s and l.relation in (
                select i.inhrelid from pg_catalog.pg_inherits i
                where i.inhparent = to_regclass(format('%%I.%%I', %(schema)s::text, %(name)s::text)))
    end
    and not (%(writers)s and l.mode = 'AccessShareLock')
    and not (%(prepared)s and l.pid is not null)
    and l.pid is distinct from pg_backend_pid()
group by l.pid, a.application_name, a.usename, p.gid, p.owner
order by age desc nulls last
