create or replace function londiste.skip_apply_error(
    i_queue_name text,
    i_event_id int8,
    i_row_nr int4,
    i_by text,
    i_reason text,
    out ret_code int4,
    out ret_note text
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Marks a failed event, or one row of a packed event, to be skipped on this node.
 *
 * The worker skips it with its next attempt at the batch.
 *
 * i_by -- name of the operator, in addition to the role.
 * i_reason -- why the event is skipped.
 *
 * ret_code -- 200 marked; 304 decided already; 404 the event does not stop replication on this
 *     node, or this database is no node of the queue.
 */
declare
    v_error londiste.apply_error;
    v_address text := i_event_id || case when i_row_nr = 0 then '' else ':' || i_row_nr end;
begin
    perform londiste._require_node(i_queue_name);
    select * into v_error
    from londiste.apply_error e
    where e.queue_name = i_queue_name
        and e.event_id = i_event_id
        and e.row_nr = i_row_nr
        and e.state in ('halted', 'skip')
    for update;
    if not found then
        select 404, format('Event %s does not halt replication of queue %s here', v_address, i_queue_name)
            into ret_code, ret_note;
        return;
    end if;
    if v_error.state = 'skip' then
        select 304, format('Event %s is to be left out already', v_address) into ret_code, ret_note;
        return;
    end if;
    update londiste.apply_error e
    set state = 'skip',
        decided_at = now(),
        decided_by = format('%s (role %s)', coalesce(i_by, '?'), session_user),
        reason = i_reason
    where e.error_id = v_error.error_id;
    perform pg_notify('londiste_tables', left(i_queue_name, 1000));
    select 200, format('Event %s is left out on this node', v_address) into ret_code, ret_note;
end;
$$;
