create or replace function pgq_node._fence(i_queue_name text, i_close boolean)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set client_min_messages = warning
as $$
/*
 * Makes the event tables of a queue refuse or accept rows of ordinary sessions.
 *
 * i_close -- true: refuse; false: accept.
 *
 * Rows of a worker's session, with session_replication_role = replica, are accepted in either case.
 *
 * A producer may have checked the queue before it was closed, and then have waited for the lock of
 * the session that closed it.  It inserts afterwards and meets the trigger: a statement sees the
 * triggers that a table has once the statement has the lock.
 */
declare
    v_queue pgq.queue;
    v_table text;
begin
    select * into v_queue from pgq.queue where queue_name = i_queue_name;
    for v_table in
        select pgq.quote_fqname(name)
        from (
            select v_queue.queue_data_pfx as name
            union all
            select pgq._event_tables(v_queue)
        ) as t
        order by 1
    loop
        execute format('drop trigger if exists pgq_node_closed on %s', v_table);
        if i_close then
            execute format(
                'create trigger pgq_node_closed before insert on %s'
                ' for each statement execute function pgq_node._refuse_event(%L)',
                v_table, i_queue_name);
        end if;
    end loop;
end;
$$;
