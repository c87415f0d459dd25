create or replace function pgq_node.close_root(
    i_queue_name text,
    i_token uuid,
    out ret_code int4,
    out ret_note text,
    out last_tick int8)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Closes a root: waits for writing transactions, creates the last tick, then refuses events.
 *
 * One transaction does all steps or none.  Call it in a transaction of its own with a short
 * lock_timeout, and retry after a pause.  While it waits for a transaction that has written, other
 * writers wait after it.
 *
 * i_token -- token of the operation (begin_operation) that closes the root.
 * last_tick -- this node has no event after this tick.
 *
 * ret_code -- 200 closed; 201 was closed already; 301 not a root; 404 this database is no node of
 *     the queue; 405 no such operation is in progress.
 */
declare
    v_type text;
    v_queue pgq.queue;
begin
    select n.node_type into v_type
    from pgq_node.node_info n
    where n.queue_name = i_queue_name
    for no key update;
    if not found then
        select 404, 'Unknown queue: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    if v_type <> 'root' then
        select 301, 'Node is not root: ' || v_type into ret_code, ret_note;
        return;
    end if;
    select o.last_tick into last_tick
    from pgq_node.operation o
    where o.queue_name = i_queue_name and o.token = i_token;
    if not found then
        select 405, 'The change is not under way here any more' into ret_code, ret_note;
        return;
    end if;
    if last_tick is not null then
        select 201, 'Root is closed at tick ' || last_tick::text into ret_code, ret_note;
        return;
    end if;

    perform pgq._require_read_committed();
    select * into v_queue from pgq.queue where queue_name = i_queue_name;
    -- Before the row of the queue: producers that are counted lock it, and hold their event tables.
    execute format('lock table %s in exclusive mode', pgq.quote_fqname(v_queue.queue_data_pfx));
    -- A fenced root (fence_root) creates this last tick as well.
    update pgq.queue
    set queue_external_ticker = false
    where queue_id = v_queue.queue_id and queue_external_ticker;
    perform pgq.lock_ticks(i_queue_name);
    select * into v_queue from pgq.queue where queue_name = i_queue_name;
    last_tick := pgq._insert_tick(v_queue, null::txid_snapshot);
    update pgq.queue
    set queue_disable_insert = true,
        queue_external_ticker = true
    where queue_id = v_queue.queue_id;
    perform pgq_node._fence(i_queue_name, true);
    update pgq_node.operation o
    set last_tick = close_root.last_tick
    where o.queue_name = i_queue_name;
    select 200, 'Root closed at tick ' || last_tick::text into ret_code, ret_note;
end;
$$;
