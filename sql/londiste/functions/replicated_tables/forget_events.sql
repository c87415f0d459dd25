create or replace function londiste.forget_events(i_queue_name text, i_table_name text)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Deletes the events of a table from the queue of a branch.  Returns their number.
 *
 * For tables of which the branch replicates a smaller subset from now on than its provider: earlier
 * events were forwarded completely.
 *
 * Returns 0 where the node has no queue of its own.  Raises LD003 when the node is the root, or
 * the database is no node; LD004 when the table is not local.
 */
declare
    v_table text := londiste.make_fqname(i_table_name);
    v_queue pgq.queue;
    v_events text;
    v_count int8;
    v_all int8 := 0;
begin
    perform londiste._require_node(i_queue_name);
    if pgq_node.is_root_node(i_queue_name) then
        raise exception using
            errcode = 'LD003',
            message = format('this is the root of queue %s', i_queue_name),
            detail = 'all nodes need the events of the root',
            hint = 'call the function on a branch';
    end if;
    if not exists (
        select from londiste.table_info t
        where t.queue_name = i_queue_name and t.table_name = v_table and t.local
    ) then
        raise exception using
            errcode = 'LD004',
            message = format('table %s is not replicated on this node', v_table),
            detail = format('queue %s', i_queue_name),
            hint = 'londiste tables lists the replicated tables';
    end if;
    select * into v_queue from pgq.queue q where q.queue_name = i_queue_name;
    if not found then
        return 0;
    end if;
    for v_events in select pgq.quote_fqname(name) from pgq._event_tables(v_queue) as name loop
        perform pgq._identify_rows(v_events);
        execute format('delete from only %s where ev_extra1 = $1', v_events) using v_table;
        get diagnostics v_count = row_count;
        v_all := v_all + v_count;
    end loop;
    return v_all;
end;
$$;
