create or replace function pgq._rebase_reason(i_queue pgq.queue)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns why the transaction ids of a queue are not those of this server; null when they may be.
 */
declare
    v_xmax int8 := txid_snapshot_xmax(txid_current_snapshot());
    v_last pgq.tick;
begin
    if not pgq._is_at_home() then
        return 'the database was restored from another server';
    end if;
    select *
    into v_last
    from pgq.tick
    where tick_queue = (i_queue).queue_id
    order by tick_id desc
    limit 1;
    if txid_snapshot_xmax(v_last.tick_snapshot) > v_xmax then
        return format(
            'tick %s has transaction id %s, the server is at %s',
            v_last.tick_id, txid_snapshot_xmax(v_last.tick_snapshot), v_xmax
        );
    end if;
    if greatest((i_queue).queue_switch_step1, (i_queue).queue_switch_step2) > v_xmax then
        return format(
            'the last rotation has transaction id %s, the server is at %s',
            greatest((i_queue).queue_switch_step1, (i_queue).queue_switch_step2), v_xmax
        );
    end if;
    return null;
end;
$$;
