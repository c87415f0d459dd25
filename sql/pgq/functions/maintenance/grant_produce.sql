create or replace function pgq.grant_produce(i_queue_name text, i_role name)
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Grants a role the right to write events into one queue.  Returns 1.
 *
 * The role can use insert_event(), insert_events() and COPY into current_event_table().  Members of
 * pgq_writer can write into every queue without this grant.
 *
 * Raises LD005 without a role, and 42501 for a queue that is a node of a cascade: a role that writes into its tables has the
 * rights of an administrator on all subscribers.
 */
declare
    v_queue pgq.queue;
    v_role text := quote_ident(i_role);
begin
    if i_role is null then
        raise exception using
            errcode = 'LD005',
            message = 'Invalid NULL value',
            hint = 'set the name of the role';
    end if;
    v_queue := pgq._require_queue(i_queue_name);
    if v_queue.queue_replicated then
        raise exception using
            errcode = '42501',
            message = format('queue %s is a node of a cascade', i_queue_name),
            detail = 'subscribers apply its events with the rights of their workers',
            hint = format('give the role a queue of its own: select pgq.create_queue(%L),'
                ' pgq.grant_produce(%L, %L)', 'app', 'app', i_role);
    end if;
    execute format('grant insert on %s to %s', pgq._queue_tables(v_queue), v_role);
    execute format('grant usage on sequence %s to %s',
        pgq.quote_fqname(v_queue.queue_event_seq), v_role);
    return 1;
end;
$$;
