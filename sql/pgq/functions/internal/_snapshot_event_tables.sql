create or replace function pgq._snapshot_event_tables(
    i_queue_id int4,
    i_last txid_snapshot,
    i_current txid_snapshot
)
returns setof text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the tables of a queue that hold events between two snapshots, oldest first.
 *
 * Usually one, the current or the previous; two when a rotation is near them.
 * A third table appears when a transaction wrote there late: one in isolation
 * level repeatable read sees the queue as it was before later rotations.
 *
 * Loops, not one query: that would be planned again at each call, as its cost looks different each time.
 */
declare
    v_queue pgq.queue;
    v_previous int4;
    v_numbers int4[];
    v_number int4;
begin
    select * into v_queue from pgq.queue where queue_id = i_queue_id;
    v_previous := (v_queue.queue_cur_table + v_queue.queue_ntables - 1) % v_queue.queue_ntables;
    if txid_snapshot_xmax(i_current) < v_queue.queue_switch_step1 then
        -- Finished before the switch began.
        v_numbers := array[v_previous];
    elsif txid_snapshot_xmin(i_last) > v_queue.queue_switch_step2 then
        -- Begun after all sessions saw the switch.
        v_numbers := array[v_queue.queue_cur_table];
    else
        -- In one of them, or the switch is not known to be over (step2 null).
        v_numbers := array[v_previous, v_queue.queue_cur_table];
    end if;

    foreach v_number in array v_numbers loop
        return next v_queue.queue_data_pfx || '_' || v_number;
    end loop;
    for v_other in 0 .. v_queue.queue_ntables - 1 loop
        if v_other <> all (v_numbers)
            and pgq._has_late_events(v_queue.queue_data_pfx || '_' || v_other, i_last, i_current)
        then
            return next v_queue.queue_data_pfx || '_' || v_other;
        end if;
    end loop;
end;
$$;
