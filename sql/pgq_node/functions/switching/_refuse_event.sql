create or replace function pgq_node._refuse_event()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Raises the error of insert_event(), on event tables of a queue that this node does not write.
 *
 * A transaction with one snapshot may be older than the closing, and would see an open queue.  But it
 * sees another trigger then, or none: that of an earlier closing has another second argument.
 */
begin
    -- The condition of _is_open(), written out: a call takes as long as an insert.
    perform
    from pgq.queue q
        join pgq_node.node_info n on n.queue_name = q.queue_name
        join pg_trigger t on t.tgrelid = tg_relid and t.tgname = tg_name
    where q.queue_name = tg_argv[0]
        and not q.queue_disable_insert
        and n.node_type = 'root'
        and not exists (
            select from pgq_node.operation o
            where o.queue_name = q.queue_name
                and o.node_name = n.node_name
                and o.last_tick is not null)
        and coalesce(
            position(
                E'\\x00'::bytea || convert_to(tg_argv[1], 'UTF8') || E'\\x00'::bytea in t.tgargs) > 0,
            -- Made by an earlier release.
            current_setting('transaction_isolation') = 'read committed');
    if not found then
        perform pgq._raise_insert_disabled(tg_argv[0]);
    end if;
    return null;
end;
$$;
