create or replace function pgq.get_daemons(
    i_queue_name text default null,
    out kind text,
    out queue_name text,
    out daemon_name text,
    out part text,
    out role_name name,
    out host text,
    out pid int4,
    out version text,
    out started timestamptz,
    out seen timestamptz,
    out period float8,
    out seen_age float8,
    out worked_age float8,
    out fetch_seconds float8,
    out apply_seconds float8,
    out stopped timestamptz,
    out has_session boolean,
    out session_age float8,
    out is_executing boolean,
    out error text
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the daemons of this database with their last signs of life; ages in seconds.
 *
 * i_queue_name -- those of this queue, and tickers; null means all
 * seen_age -- since the last report
 * worked_age -- since the end of its last batch or tick
 * has_session -- whether the session of the last report exists; null on a standby
 * session_age -- since that session began or ended its last statement; null when it is not visible
 * is_executing -- whether the server works for that session now
 * error -- what the daemon cannot do at present
 */
    select d.dm_kind, d.dm_queue, d.dm_name, d.dm_part, d.dm_role, d.dm_host, d.dm_pid,
        d.dm_version, d.dm_started, d.dm_seen, d.dm_period,
        extract(epoch from clock_timestamp() - d.dm_seen)::float8,
        extract(epoch from clock_timestamp() - d.dm_worked)::float8,
        d.dm_fetch, d.dm_apply, d.dm_stopped,
        case when not pg_is_in_recovery() then a.pid is not null end,
        extract(epoch from clock_timestamp() - a.state_change)::float8,
        coalesce(a.state = 'active' and a.wait_event_type is distinct from 'Client', false),
        d.dm_error
    from pgq.daemon as d
        left join lateral (
            select s.pid, s.state, s.state_change, s.wait_event_type
            from pg_stat_get_activity(d.dm_backend) as s
            where s.datid = (select o.oid from pg_database as o where o.datname = current_database())
                and coalesce(s.backend_start = d.dm_backend_start, true)
        ) as a on true
    where (i_queue_name is null or d.dm_queue in (i_queue_name, ''))
        and (d.dm_kind in ('worker', 'ticker', 'copy', 'notify', 'audit', 'standby')
            or exists (
                select
                from pgq.registration as r
                    join pgq.queue as q on q.queue_id = r.sub_queue
                    join pgq.consumer as c on c.co_id = r.sub_consumer
                where q.queue_name = d.dm_queue and c.co_name = d.dm_name))
    order by 1, 2, 3, 4, 5;
$$;
