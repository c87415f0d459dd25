create or replace function pgq._move_delayed(i_queue_id int4, i_limit int4)
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
as $$
/*
 * Moves up to i_limit delayed events whose time has come into their queue.  Returns their number.
 *
 * An event that another session is cancelling waits for the next call.  The limit of events per
 * transaction does not count them; it counted them at the insert.
 *
 * The settings: without statistics of the table the server would read and sort all due events for
 * each thousand.
 */
declare
    -- As in insert_event_raw(): the transaction gets its id before it reads the current table.
    v_txid int8 := txid_current();
    v_queue pgq.queue;
    v_count int4;
begin
    select * into v_queue from pgq.queue where queue_id = i_queue_id;
    execute format(
        'with due as ('
        '   delete from pgq.delayed_event'
        '   where ctid = any (array('
        '       select ctid'
        '       from pgq.delayed_event'
        '       where ev_queue = $1 and ev_send_at <= now()'
        '       order by ev_send_at, ev_id'
        '       limit $2'
        '       for update skip locked))'
        '   returning *),'
        -- Proofs count for the transaction in which their event is in the queue.
        ' proven as ('
        '   update pgq.control_event c set ev_txid = $3 from due d'
        '   where c.ev_queue = $1 and c.ev_id = d.ev_id and c.ev_type = d.ev_type)'
        ' insert into %s (ev_id, ev_time, ev_txid, ev_type, ev_data,'
        '   ev_extra1, ev_extra2, ev_extra3, ev_extra4)'
        ' select ev_id, now(), $3, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4'
        ' from due order by ev_id',
        pgq.quote_fqname(v_queue.queue_data_pfx || '_' || v_queue.queue_cur_table)
    )
    using i_queue_id, i_limit, v_txid;
    get diagnostics v_count = row_count;
    -- The ticker counts new events by the sequence.
    perform count(nextval(v_queue.queue_event_seq)) from generate_series(1, v_count);
    return v_count;
end;
$$;
