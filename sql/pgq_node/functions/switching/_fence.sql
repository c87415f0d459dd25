create or replace function pgq_node._fence(i_queue_name text, i_close boolean)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set client_min_messages = warning
as $$
/*
 * Makes the event tables of a queue refuse rows of ordinary sessions, or removes what refuses them.
 *
 * i_close -- true: refuse; false: the queue is open.
 *
 * Rows of a worker's session, with session_replication_role = replica, are accepted in either case.
 *
 * A producer may have checked the queue before it was closed, and then have waited for the lock of
 * the session that closed it.  It inserts afterwards and meets the trigger: a statement sees the
 * triggers that a table has once the statement has the lock.
 *
 * The trigger accepts rows while the queue is open (_refuse_event).  So opening waits for no reader,
 * such as a dump: the trigger stays on a table that others use, and maint_fence() removes it later.
 * Its second argument is the transaction that has closed the queue.
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
        where i_close or exists (
            select from pg_trigger g
            where g.tgname = 'pgq_node_closed' and g.tgrelid = to_regclass(pgq.quote_fqname(name)))
        order by 1
    loop
        if i_close then
            execute format(
                'create or replace trigger pgq_node_closed before insert on %s'
                ' for each statement execute function pgq_node._refuse_event(%L, %L)',
                v_table, i_queue_name, txid_current());
        else
            begin
                execute format('lock table only %s in access exclusive mode nowait', v_table);
                execute format('drop trigger pgq_node_closed on %s', v_table);
            exception
                when lock_not_available then
                    null;
            end;
        end if;
    end loop;
end;
$$;
