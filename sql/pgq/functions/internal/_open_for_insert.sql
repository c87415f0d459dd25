create or replace function pgq._open_for_insert(i_queue_name text, i_events int8)
returns pgq.queue
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the queue if this transaction may insert i_events further events into it.
 *
 * Otherwise it raises the errors of insert_event().  The result contains the table that takes events
 * now, valid for this transaction only.
 */
declare
    v_queue pgq.queue;
begin
    -- As in insert_event_raw(): the transaction gets its id before it reads the current table.
    perform txid_current();
    select * into v_queue from pgq.queue where queue_name = i_queue_name;
    if not found then
        perform pgq._raise_no_queue('No such queue', i_queue_name);
    end if;
    if v_queue.queue_disable_insert
        and current_setting('session_replication_role') <> 'replica'
    then
        perform pgq._raise_insert_disabled(i_queue_name);
    end if;
    if v_queue.queue_per_tx_limit is not null and i_events > 0 then
        perform pgq._count_event(
            v_queue.queue_id, i_queue_name, v_queue.queue_per_tx_limit, i_events
        );
    end if;
    return v_queue;
end;
$$;
