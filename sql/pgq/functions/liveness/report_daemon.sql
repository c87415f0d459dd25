create or replace function pgq.report_daemon(
    i_kind text,
    i_queue_name text,
    i_name text,
    i_part text,
    i_host text,
    i_pid int4,
    i_version text,
    i_up float8,
    i_period float8,
    i_idle float8,
    i_fetch float8,
    i_apply float8,
    i_stopped boolean,
    i_error text default null
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Records that a daemon lives; returns true at its first report.
 *
 * The row belongs to the role of the session.  Workers, their standbys, tickers, copies, notifiers and
 * audits need the rights of pgq_admin, consumers the right to take batches of that consumer.  So no role
 * can report for a daemon that it could not run, or change the row of another role.
 *
 * i_kind -- worker, ticker, copy, notify, audit, standby (that a worker reads from), or the kind of a
 *     consumer
 * i_queue_name -- empty for a ticker
 * i_part -- name of a cooperative consumer, else empty
 * i_up -- seconds since the start of the process
 * i_period -- seconds between two reports
 * i_idle -- seconds since the end of the last batch; null: none yet
 * i_fetch, i_apply -- seconds from its tick until it was opened, and that it took; null: unknown
 * i_stopped -- the daemon ends now, as requested
 * i_error -- what it cannot do at present, for status; null: all is well
 */
declare
    v_role name := pgq._caller();
    v_queue int4;
    v_consumer int4;
    v_now timestamptz := clock_timestamp();
    v_started timestamptz := v_now - make_interval(secs => least(greatest(i_up, 0), 1e9));
    -- greatest() ignores null, which means that nothing is known.
    v_worked timestamptz := case when i_idle is not null
        then v_now - make_interval(secs => least(greatest(i_idle, 0), 1e9)) end;
    v_fetch float8 := case when i_fetch is not null then least(greatest(i_fetch, 0), 1e9) end;
    v_apply float8 := case when i_apply is not null then least(greatest(i_apply, 0), 1e9) end;
    v_host text := left(i_host, 255);
    v_version text := left(i_version, 100);
    v_period float8 := least(greatest(i_period, 1), 3600);
    v_stopped timestamptz := case when i_stopped then v_now end;
    v_backend_start timestamptz;
begin
    if i_kind not in (
        'worker', 'ticker', 'copy', 'notify', 'audit', 'standby', 'consumer', 'stream', 'lake',
        'dispatch', 'mover', 'splitter')
    then
        raise exception using
            errcode = '22023',
            message = format('kind %s of a daemon is unknown', quote_literal(i_kind));
    end if;
    if i_kind not in ('worker', 'ticker', 'copy', 'notify', 'audit', 'standby') then
        select r.sub_queue, r.sub_consumer
        into v_queue, v_consumer
        from pgq.registration as r
            join pgq.queue as q on q.queue_id = r.sub_queue
            join pgq.consumer as c on c.co_id = r.sub_consumer
        where q.queue_name = i_queue_name and c.co_name = i_name;
        if not found then
            return false;
        end if;
    end if;
    if not pgq._may_consume(v_queue, v_consumer, case when v_queue is null then 'end' else 'use' end)
    then
        raise exception using
            errcode = '42501',
            message = format('role %s may not report for %s %s', v_role, i_kind, i_name),
            detail = 'it could not run this daemon',
            hint = 'grant pgq_admin, or make the role the owner of the consumer';
    end if;
    select a.backend_start into v_backend_start
    from pg_stat_get_activity(pg_backend_pid()) as a;
    update pgq.daemon
    set dm_host = v_host,
        dm_pid = i_pid,
        dm_version = v_version,
        dm_started = v_started,
        dm_seen = v_now,
        dm_period = v_period,
        dm_worked = coalesce(v_worked, dm_worked),
        dm_fetch = coalesce(v_fetch, dm_fetch),
        dm_apply = coalesce(v_apply, dm_apply),
        dm_stopped = v_stopped,
        dm_error = left(i_error, 1000),
        dm_backend = pg_backend_pid(),
        dm_backend_start = v_backend_start
    where dm_kind = i_kind
        and dm_queue = i_queue_name
        and dm_name = i_name
        and dm_part = i_part
        and dm_role = v_role;
    if found then
        return false;
    end if;
    -- Daemons that moved elsewhere, or that nobody starts any more.
    delete from pgq.daemon where dm_seen < v_now - interval '30 days';
    if (select count(*) from pgq.daemon as d where d.dm_queue = i_queue_name and d.dm_name = i_name)
        >= 1000
    then
        return false;
    end if;
    insert into pgq.daemon (
        dm_kind, dm_queue, dm_name, dm_part, dm_role, dm_host, dm_pid, dm_version, dm_started,
        dm_seen, dm_period, dm_worked, dm_fetch, dm_apply, dm_stopped, dm_backend, dm_backend_start,
        dm_error)
    values (
        i_kind, i_queue_name, i_name, i_part, v_role, v_host, i_pid, v_version,
        v_started, v_now, v_period, v_worked, v_fetch, v_apply, v_stopped, pg_backend_pid(),
        v_backend_start, left(i_error, 1000))
    on conflict on constraint daemon_pkey do nothing;
    return true;
end;
$$;
