-- What keeps old rows and old snapshots alive on this server, the oldest first.
-- age -- seconds, of a slot null; xids -- transactions since; writes -- ticks cannot pass it.
-- What a user without pg_read_all_stats cannot see of others has age null and kind 'hidden'.
select kind, name, age, xids, writes, remedy
from (
    select
        case when a.query = '<insufficient privilege>' then 'hidden' else 'transaction' end as kind,
        format('%s of %s, process %s',
               coalesce(nullif(a.application_name, ''), 'a session'), a.usename, a.pid) as name,
        extract(epoch from clock_timestamp() - a.xact_start)::float8 as age,
        greatest(age(a.backend_xmin), age(a.backend_xid))::int8 as xids,
        a.backend_xid is not null as writes,
        format('select pg_terminate_backend(%s)', a.pid) as remedy
    from pg_stat_activity a
    where a.pid <> pg_backend_pid()
        and (a.datname = current_database() or a.backend_xid is not null)
        and (a.query = '<insufficient privilege>'
             or (a.backend_type = 'client backend'
                 and coalesce(a.backend_xmin, a.backend_xid) is not null))
    union all
    select
        'prepared transaction',
        format('%s of %s in database %s', p.gid, p.owner, p.database),
        extract(epoch from clock_timestamp() - p.prepared)::float8,
        age(p.transaction)::int8,
        true,
        format('commit prepared %L, or rollback prepared %L', p.gid, p.gid)
    from pg_prepared_xacts p
    union all
    select
        'replication slot',
        s.slot_name,
        null,
        greatest(age(s.xmin), age(s.catalog_xmin))::int8,
        false,
        format('select pg_drop_replication_slot(%L)', s.slot_name)
    from pg_replication_slots s
    where s.xmin is not null
) as holders
order by kind = 'hidden', age desc nulls last, xids desc nulls last
limit 20;
