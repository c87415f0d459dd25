create or replace function pgq_node.insert_part_tick(
    i_combined_queue_name text,
    i_part_queue_name text,
    i_tick_id int8,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Writes into a combined queue the tick up to which it contains a part (event pgq.tick-id).
 *
 * On the root of the combined queue, the worker of the part calls it as the last step in the
 * transaction of its batch.
 *
 * A session that closes the root waits for this transaction, or comes first.  Then ret_code is 405 and
 * the transaction must be rolled back, because no node would read its events.
 *
 * ret_code -- 200 written; 404 this database is no node of the queue; 405 the combined queue is no
 *     root that accepts events.
 */
declare
    v_type text;
    v_closed boolean;
begin
    perform 1 from pgq.queue q where q.queue_name = i_combined_queue_name;
    if not found then
        select 404, 'Unknown queue: ' || coalesce(i_combined_queue_name, 'NULL')
            into ret_code, ret_note;
        return;
    end if;
    perform pgq._prove_event(i_combined_queue_name,
        pgq._insert_event(i_combined_queue_name, 'pgq.tick-id', i_tick_id::text,
            i_part_queue_name, null::text, null::text, null::text),
        'pgq.tick-id');
    -- The line above locks the event tables, so the result stays valid.
    select n.node_type, q.queue_disable_insert into v_type, v_closed
    from pgq_node.node_info n join pgq.queue q on q.queue_name = n.queue_name
    where n.queue_name = i_combined_queue_name;
    if v_type is distinct from 'root' or v_closed then
        select 405, 'Combined queue takes no events here: ' || i_combined_queue_name
            into ret_code, ret_note;
        return;
    end if;
    select 200, 'Tick of part written' into ret_code, ret_note;
end;
$$;
