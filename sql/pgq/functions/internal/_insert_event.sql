create or replace function pgq._insert_event(
    queue_name text,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text
)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Inserts an event and returns its id, without a check of the caller's rights.
 *
 * Only administrators may call it, and functions that check for others: pgq.insert_event(),
 * pgq._produce(), and the functions of the cascade.
 */
declare
    -- The transaction gets its id before it reads the current table.  Batches rely on this: a
    -- transaction with an id above queue_switch_step2 has seen the switch.
    v_txid int8 := txid_current();
    v_next_id int8;
    v_table text;
    v_queue record;
    v_stored boolean;
begin
    -- pgq._generate_store_event() writes here, for each queue, a static statement that checks the
    -- queue and inserts in one, into the table that this session used last.  It inserts nothing when
    -- the queue has rotated since, refuses events or counts them.  Then the code below decides, and
    -- remembers the table.
    -- fast: begin
    -- fast: end

    select
        q.queue_id,
        q.queue_data_pfx,
        q.queue_cur_table,
        q.queue_event_seq,
        q.queue_disable_insert,
        q.queue_per_tx_limit
    into v_queue
    from pgq.queue q
    where q.queue_name = _insert_event.queue_name;
    if not found then
        perform pgq._raise_no_queue('No such queue', queue_name);
    end if;
    v_next_id := coalesce(v_next_id, nextval(v_queue.queue_event_seq));
    if v_queue.queue_disable_insert
        and current_setting('session_replication_role') <> 'replica'
    then
        perform pgq._raise_insert_disabled(queue_name);
    end if;
    if v_queue.queue_per_tx_limit is not null then
        perform pgq._count_event(v_queue.queue_id, queue_name, v_queue.queue_per_tx_limit);
    end if;

    v_stored := pgq._store_event(
        v_queue.queue_id, v_queue.queue_data_pfx, v_queue.queue_cur_table,
        v_next_id, now(), v_txid, null::int4, null::int4,
        ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
    );
    -- Only a guess, which any session may change: the fast statement checks it.
    perform set_config(
        'pgq.table_of_' || v_queue.queue_id,
        case
            when v_queue.queue_disable_insert or v_queue.queue_per_tx_limit is not null then ''
            else v_queue.queue_cur_table::text
        end,
        false
    );
    return v_next_id;
end;
$$;

select pgq._generate_store_event();
