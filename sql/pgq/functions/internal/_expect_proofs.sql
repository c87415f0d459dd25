create or replace function pgq._expect_proofs(i_queue_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Starts the proofs of a queue: transactions that begin after this one prove their control events,
 * and subscribers refuse others.  Does nothing if the proofs have started.
 *
 * The upgrade does not call it, because a concurrent transaction may still use the old functions.
 *
 * Delayed control events are proven here.  Their producers were checked when they wrote them.
 */
declare
    v_queue_id int4;
begin
    update pgq.queue
    set queue_proven_from = txid_snapshot_xmax(txid_current_snapshot())
    where queue_name = i_queue_name and queue_proven_from is null
    returning queue_id into v_queue_id;
    if not found then
        return;
    end if;
    insert into pgq.control_event (ev_queue, ev_id, ev_txid, ev_type)
    select d.ev_queue, d.ev_id, 0, d.ev_type
    from pgq.delayed_event d
    where d.ev_queue = v_queue_id
        and pgq._is_control(d.ev_type)
        and not exists (
            select
            from pgq.control_event c
            where c.ev_queue = d.ev_queue and c.ev_id = d.ev_id and c.ev_type = d.ev_type
        );
end;
$$;
