create or replace function pgq._rebase_queue(
    i_queue pgq.queue,
    i_limit int8,
    i_since int8,
    out ticks int8,
    out events int8,
    out unread int8,
    out arrived int8
)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Rewrites the transaction ids of one queue so that they fit this server.
 *
 * The caller holds all locks and has checked that it is needed.
 *
 * i_limit -- new ids stay below; every transaction with such an id is finished.
 * i_since -- transaction that restored the database: events inserted on this server have a higher id.
 *
 * All events between two ticks get one id: the first that the earlier tick does not see and the
 * later does.  So the batches of any two ticks stay the same.  After the last tick come
 * the events that no tick has seen, then those inserted on this server since the restore.
 */
declare
    v_tables text[] := array(select t from pgq._event_tables(i_queue) as t);
    v_table text;
    v_native text;
    v_base int8;
    v_last int8;
    v_new int8;
    v_old int8;
    v_count int8;
begin
    create temporary table rebase_txid (old int8 primary key, nr int8, new int8) on commit drop;
    create temporary table rebase_tick (
        nr int8 primary key, tick_id int8, snap txid_snapshot, prev txid_snapshot, new int8
    ) on commit drop;

    foreach v_table in array v_tables loop
        execute format(
            'insert into pg_temp.rebase_txid (old)'
            ' select distinct e.ev_txid from only %s e where not (%s)'
            ' on conflict do nothing',
            pgq.quote_fqname(v_table),
            pgq._native_condition(v_table, i_since)
        );
    end loop;
    insert into pg_temp.rebase_tick (nr, tick_id, snap, prev)
    select
        row_number() over (order by t.tick_id),
        t.tick_id,
        t.tick_snapshot,
        lag(t.tick_snapshot) over (order by t.tick_id)
    from pgq.tick t
    where t.tick_queue = (i_queue).queue_id;
    get diagnostics v_count = row_count;
    ticks := v_count;
    analyze pg_temp.rebase_txid;
    analyze pg_temp.rebase_tick;

    -- The first tick that sees a transaction, found as batches are: ids between the ends of
    -- two snapshots, and those that ran at the earlier one.
    with seen as (
        select x.old, t.nr
        from pg_temp.rebase_tick t
        join pg_temp.rebase_txid x
            on x.old >= coalesce(txid_snapshot_xmax(t.prev), 0)
            and x.old < txid_snapshot_xmax(t.snap)
        where txid_visible_in_snapshot(x.old, t.snap)
        union all
        select x.old, t.nr
        from pg_temp.rebase_tick t
        cross join lateral txid_snapshot_xip(t.prev) as running (id)
        join pg_temp.rebase_txid x on x.old = running.id
        where txid_visible_in_snapshot(running.id, t.snap)
    )
    update pg_temp.rebase_txid x
    set nr = f.nr - 1
    from (select s.old, min(s.nr) as nr from seen s group by s.old) as f
    where f.old = x.old;
    update pg_temp.rebase_txid set nr = ticks where nr is null;

    -- Ticks without events between them share an id: a young server has few.
    with filled as (select distinct x.nr from pg_temp.rebase_txid x where x.nr > 0),
    counted as (
        select t.nr, 1 + count(f.nr) over (order by t.nr) - count(f.nr) over (
            partition by t.nr) as new
        from pg_temp.rebase_tick t
        left join filled f on f.nr = t.nr
    )
    update pg_temp.rebase_tick t set new = c.new from counted c where c.nr = t.nr;
    v_count := coalesce((select max(t.new) from pg_temp.rebase_tick t), 0);
    v_base := i_limit - 1 - v_count;
    if v_base < 3 then
        raise exception using
            errcode = 'LD202',
            message = format(
                'too few transaction ids: queue %s needs %s, below %s all are finished',
                (i_queue).queue_name, v_count + 4, i_limit
            ),
            detail = 'events that came between different ticks need different ids of the past, '
                'and this server is young; a long transaction makes it look younger',
            hint = format(
                'use up some ids: do $do$ begin for i in 1..%s loop perform txid_current(); commit; '
                'end loop; end $do$', v_count + 4 - i_limit + 100
            );
    end if;
    v_last := v_base + v_count;
    update pg_temp.rebase_tick t set new = t.new + v_base;
    update pg_temp.rebase_txid x
    set new = coalesce(
        (select t.new from pg_temp.rebase_tick t where t.nr = x.nr), v_base
    );

    events := 0;
    unread := 0;
    arrived := 0;
    foreach v_table in array v_tables loop
        v_native := pgq._native_condition(v_table, i_since);
        execute format(
            'select count(*), count(*) filter (where x.old is null),'
            ' count(*) filter (where x.new = $1)'
            ' from only %s e'
            ' left join pg_temp.rebase_txid x on x.old = e.ev_txid and not (%s)',
            pgq.quote_fqname(v_table),
            v_native
        )
        into v_count, v_new, v_old
        using v_last;
        events := events + v_count;
        arrived := arrived + v_new;
        unread := unread + v_old;
        perform pgq._identify_rows(pgq.quote_fqname(v_table));
        execute format(
            'update only %s e set ev_txid = case when %s then $1 else ('
            ' select x.new from pg_temp.rebase_txid x where x.old = e.ev_txid) end',
            pgq.quote_fqname(v_table),
            v_native
        )
        using v_last;
    end loop;
    update pgq.tick t
    set tick_snapshot = format('%s:%s:', n.new, n.new)::txid_snapshot
    from pg_temp.rebase_tick n
    where t.tick_queue = (i_queue).queue_id and t.tick_id = n.tick_id;

    -- All ticks are between these two: batches read both tables, and rotation
    -- waits until all consumers are after them.
    update pgq.queue
    set queue_switch_step1 = v_base,
        queue_switch_step2 = v_last,
        -- Events of before have other ids than their proofs.
        queue_proven_from = case when queue_proven_from is not null then i_limit end,
        -- After the ticks after which events were removed; null when there is none.
        queue_history_txid = (
            select max(t.new) + 1
            from pg_temp.rebase_tick t
            where txid_snapshot_xmin(t.snap) < (i_queue).queue_history_txid
        )
    where queue_id = (i_queue).queue_id;

    -- Those of delayed events get their transaction later.
    delete from pgq.control_event c
    where c.ev_queue = (i_queue).queue_id
        and not exists (
            select
            from pgq.delayed_event d
            where d.ev_queue = c.ev_queue and d.ev_id = c.ev_id
        );

    drop table pg_temp.rebase_txid;
    drop table pg_temp.rebase_tick;
end;
$$;
