create or replace function londiste.repair_lock(
    i_queue_name text,
    i_consumer_name text)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Locks the position of a node's worker until the transaction ends, and returns its tick.
 *
 * Waits for the batch that the worker is about to commit.  Raises LD002 for an unknown consumer.
 */
declare
    v_tick int8;
begin
    select s.last_tick_id into v_tick
    from pgq_node.local_state s
    where s.queue_name = i_queue_name and s.consumer_name = i_consumer_name
    for update;
    if not found then
        raise exception using
            errcode = 'LD002',
            message = format('consumer %s of queue %s has no position in this database',
                i_consumer_name, i_queue_name),
            hint = 'londiste node-info shows the worker of the node';
    end if;
    return v_tick;
end;
$$;
