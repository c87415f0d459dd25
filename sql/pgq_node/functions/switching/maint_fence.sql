create or replace function pgq_node.maint_fence(i_queue_name text)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Removes triggers that refuse events from a queue that was opened while others used its tables.
 *
 * Such a trigger accepts rows, and only takes time.  The function waits for no lock: the next
 * maintenance removes what is left.  Always returns 0.
 */
begin
    -- A session that closes the root waits for the end of this transaction.
    perform from pgq_node.node_info n where n.queue_name = i_queue_name for no key update skip locked;
    if found and pgq_node._is_open(i_queue_name) then
        perform pgq_node._fence(i_queue_name, false);
    end if;
    return 0;
end;
$$;
