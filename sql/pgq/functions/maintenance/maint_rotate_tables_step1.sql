create or replace function pgq.maint_rotate_tables_step1(i_queue_name text)
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Truncates the oldest event table of a queue and makes it the current one.  Always returns 0.
 *
 * Does nothing unless rotation is due and no consumer needs the events of that table.  Needs a
 * transaction of its own, and maint_rotate_tables_step2() in a later one.
 *
 * A table is truncated only when every consumer is after the previous switch.  Then all events of
 * the table that follows the current one are older than any position.  Late events of a
 * transaction (see batch_event_tables) are checked for, and keep the table.  An event with an ev_txid
 * that no transaction has had does not keep it.
 *
 * The function waits for no lock, because writers would queue up after it.
 */
declare
    v_queue pgq.queue;
    v_lowest pgq.tick;
    v_next int4;
    v_table text;
    v_bound int8;
    v_needed boolean;
    v_emptied int8;
begin
    if not pgq._rotation_due(i_queue_name) then
        return 0;
    end if;
    perform pgq._require_read_committed();
    begin
        -- FOR UPDATE, not FOR NO KEY UPDATE: blocks registrations as well.
        select * into v_queue from pgq.queue where queue_name = i_queue_name for update nowait;
        if not found or not pgq._rotation_due(i_queue_name) then
            return 0;
        end if;

        select t.*
        into v_lowest
        from pgq.tick t
        where t.tick_queue = v_queue.queue_id
            and t.tick_id = (
                select min(sub_last_tick) from pgq.subscription where sub_queue = v_queue.queue_id
            );

        v_next := (v_queue.queue_cur_table + 1) % v_queue.queue_ntables;
        v_table := pgq.quote_fqname(v_queue.queue_data_pfx || '_' || v_next);
        execute format('lock table %s in access exclusive mode nowait', v_table);
        -- No session can be writing there now, so these checks miss nothing.
        v_bound := pgq._txid_bound();
        if v_lowest.tick_id is not null then
            execute format(
                'select exists ('
                '   select 1 from only %s'
                '   where ev_txid >= $1 and ev_txid < $3'
                '       and not txid_visible_in_snapshot(ev_txid, $2))',
                v_table
            )
            into v_needed
            using txid_snapshot_xmin(v_lowest.tick_snapshot), v_lowest.tick_snapshot, v_bound;
            if v_needed then
                return 0;
            end if;
        end if;
        execute format('select max(ev_txid) from only %s where ev_txid < $1', v_table)
        into v_emptied
        using v_bound;
        execute 'truncate only ' || v_table;
        perform pgq._identify_rows(v_table);
        perform pgq._compress_event_table(v_table);
    exception
        when lock_not_available then
            -- Another session is reading or writing there; the next maintenance tries again.
            return 0;
    end;

    update pgq.queue
    set queue_cur_table = v_next,
        queue_switch_time = now(),
        queue_switch_step1 = txid_current(),
        queue_switch_step2 = null,
        queue_history_txid = greatest(queue_history_txid, v_emptied + 1)
    where queue_id = v_queue.queue_id;

    -- Ticks from before the previous switch: no consumer is that far back.  The newest tick stays
    -- in any case; registrations start there.
    delete from pgq.tick
    where tick_queue = v_queue.queue_id
        and txid_snapshot_xmin(tick_snapshot) < v_queue.queue_switch_step2
        and tick_id < (select max(tick_id) from pgq.tick where tick_queue = v_queue.queue_id);

    -- No batch of the ticks that are left has their events; delayed ones come with a later id.
    delete from pgq.control_event c
    where c.ev_queue = v_queue.queue_id
        and c.ev_txid < (
            select min(txid_snapshot_xmin(t.tick_snapshot))
            from pgq.tick t
            where t.tick_queue = v_queue.queue_id
        )
        and not exists (
            select
            from pgq.delayed_event d
            where d.ev_queue = c.ev_queue and d.ev_id = c.ev_id
        );
    return 0;
end;
$$;
