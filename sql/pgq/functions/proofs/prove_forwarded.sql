create or replace function pgq.prove_forwarded(
    i_queue_name text,
    i_event_ids int8[],
    i_types text[]
)
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Proves control events that the worker of a node forwards into its queue in this transaction.
 * Returns their number.  Their provider has proven them to the worker.
 *
 * The first call also records that the worker proves what it forwards; it may have no events.  From
 * this transaction on, subscribers of the node refuse other control events.
 */
declare
    v_queue_id int4;
begin
    select queue_id into v_queue_id from pgq.queue where queue_name = i_queue_name;
    if not found then
        perform pgq._raise_no_queue('Event queue not found', i_queue_name);
    end if;
    update pgq.queue
    set queue_proven_from = txid_current()
    where queue_id = v_queue_id and queue_proven_from is null;
    insert into pgq.control_event (ev_queue, ev_id, ev_type)
    select v_queue_id, u.id, u.type
    from unnest(i_event_ids, i_types) as u (id, type);
    return cardinality(i_event_ids);
end;
$$;
