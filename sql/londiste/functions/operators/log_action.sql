create or replace function londiste.log_action(
    i_queue_name text,
    i_operator text,
    i_action text,
    i_command text,
    i_reason text)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Records that an operator begins an action at this node.  Returns the number of the record.
 *
 * Of a queue the newest 10000 records are kept.
 *
 * i_operator -- name of the operator, in addition to the role.
 * i_command -- the command that does the same.
 * i_reason -- reason of the operator, or null.
 */
declare
    v_id int8;
begin
    perform londiste._require_node(i_queue_name);
    -- The record names the role of the session.
    perform pgq._caller();
    insert into londiste.operator_log (queue_name, operator, action, command, reason)
    values (
        i_queue_name,
        format('%s (role %s)', coalesce(i_operator, '?'), session_user),
        i_action,
        i_command,
        i_reason)
    returning action_id into v_id;
    delete from londiste.operator_log l
    where l.queue_name = i_queue_name and l.action_id <= v_id - 10000;
    return v_id;
end;
$$;
