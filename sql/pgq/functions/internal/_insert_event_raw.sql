create or replace function pgq._insert_event_raw(
    queue_name text,
    ev_id int8,
    ev_time timestamptz,
    ev_owner int4,
    ev_retry int4,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text
)
returns int8
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Inserts an event as pgq.insert_event_raw() does, but without proof: for retries, and for functions
 * that prove the event themselves if their caller is entitled.
 */
declare
    -- The transaction gets its id before it reads the current table.  Batches rely on this: a
    -- transaction with an id above queue_switch_step2 has seen the switch.
    v_txid int8 := txid_current();
    v_next_id int8;
    v_queue_id int4;
    v_prefix text;
    v_table_nr int4;
    v_stored boolean;
    v_disabled boolean;
    v_limit int4;
begin
    select
        q.queue_id,
        q.queue_data_pfx,
        q.queue_cur_table,
        nextval(q.queue_event_seq),
        q.queue_disable_insert,
        q.queue_per_tx_limit
    into v_queue_id, v_prefix, v_table_nr, v_next_id, v_disabled, v_limit
    from pgq.queue q
    where q.queue_name = _insert_event_raw.queue_name;

    if v_next_id is null then
        perform pgq._raise_no_queue('No such queue', queue_name);
    end if;
    if v_disabled and current_setting('session_replication_role') <> 'replica' then
        perform pgq._raise_insert_disabled(queue_name);
    end if;
    -- Events that return for a retry are moved, not produced.
    if v_limit is not null and ev_owner is null then
        perform pgq._count_event(v_queue_id, queue_name, v_limit);
    end if;

    -- An assignment, because a call by PERFORM takes a microsecond more.
    v_stored := pgq._store_event(
        v_queue_id, v_prefix, v_table_nr,
        coalesce(ev_id, v_next_id), coalesce(ev_time, now()), v_txid, ev_owner, ev_retry,
        ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
    );
    return coalesce(ev_id, v_next_id);
end;
$$;
