create or replace function pgq_node._take_over_queue(i_queue_name text)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Prepares an existing queue with events for a root.  Returns why that is impossible, or null.
 *
 * Subscribers do not apply the earlier events, whichever role wrote them.  The function waits for
 * transactions that have written events (lock_timeout limits the wait).  After them it creates a
 * tick, from which subscribers start.
 */
declare
    v_queue pgq.queue;
    v_delayed int8;
begin
    perform pgq._require_read_committed();
    v_queue := pgq._require_queue(i_queue_name);
    execute format('lock table %s in exclusive mode', pgq.quote_fqname(v_queue.queue_data_pfx));
    lock table pgq.delayed_event in share row exclusive mode;
    select count(*) into v_delayed
    from pgq.delayed_event as e
    where e.ev_queue = v_queue.queue_id
        and (pgq._is_applied(e.ev_type) or pgq._is_replicated(i_queue_name, e.ev_extra1));
    if v_delayed > 0 then
        return format('Queue has %s delayed events that subscribers would apply: '
            'select pgq.cancel_delayed_event(%L, ev_id) from pgq.delayed_event_list(%L)',
            v_delayed, i_queue_name, i_queue_name);
    end if;
    if not v_queue.queue_external_ticker then
        perform pgq.lock_ticks(i_queue_name);
        select * into v_queue from pgq.queue where queue_name = i_queue_name;
        perform pgq._insert_tick(v_queue, null::txid_snapshot);
    end if;
    return null;
end;
$$;
