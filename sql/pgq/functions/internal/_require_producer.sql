create or replace function pgq._require_producer(
    i_queue_name text,
    i_type text,
    i_table text,
    i_role name
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Raises 42501 when only an administrator may write such an event into this queue.
 *
 * A queue that is no node of a cascade accepts everything.  A node accepts scripts, messages of the
 * cascade and changes of rows only from administrators, because subscribers apply them with the rights
 * of their workers.  The exception are the compatible triggers, and captures with expressions.  They
 * run with the rights of the table's writer.  So their events are accepted if this transaction
 * has changed that table (_changed_here).
 *
 * i_table -- ev_extra1.  i_role -- the producer, whom the hint names: in a function that runs with the
 *     rights of its owner that is the owner, not the session.
 */
declare
    v_queue pgq.queue;
begin
    select * into v_queue from pgq.queue where queue_name = i_queue_name;
    if found and not v_queue.queue_replicated and pgq._is_applied(i_type)
        and current_setting('transaction_isolation') not in ('read committed', 'read uncommitted')
    then
        -- An older snapshot may not show yet that it is a node.
        select * into v_queue from pgq.queue where queue_name = i_queue_name for share;
    end if;
    if not found or not v_queue.queue_replicated then
        return;
    end if;
    if not pgq._is_applied(i_type) then
        if not pgq._is_replicated(i_queue_name, i_table) then
            return;
        end if;
    elsif pgq._is_change(i_type) and pgq._changed_here(i_queue_name, i_table) then
        return;
    end if;
    raise exception using
        errcode = '42501',
        message = format('queue %s takes events of this type from administrators only',
            i_queue_name),
        detail = 'the queue is a node of a cascade: subscribers apply row changes, scripts and'
            ' messages of the cascade with the rights of their workers',
        hint = format('to replicate tables, as an administrator: grant londiste_writer to %I;'
            ' for events of an application use another event type, or a queue of its own: '
            'select pgq.create_queue(''app''), pgq.grant_produce(''app'', %L)',
            i_role, i_role);
end;
$$;
