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
 * Where a combined queue is root: the worker of a part says, as the last thing in the transaction of
 * its batch, that everything up to this tick of the part is in the combined queue (event pgq.tick-id).
 *
 * Whoever closes the root waits for this transaction, or comes first; then the answer is 405, and the
 * transaction must be rolled back: nobody would read what it has written.
 *
 * 200 written; 404 no node here; 405 the combined queue is no root that takes events.
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
    perform pgq._insert_event(i_combined_queue_name, 'pgq.tick-id', i_tick_id::text,
        i_part_queue_name, null::text, null::text, null::text);
    -- The event tables are locked by the line above, so what is seen now stays so.
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
