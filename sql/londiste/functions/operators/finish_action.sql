create or replace function londiste.finish_action(
    i_queue_name text,
    i_action_id int8,
    i_outcome text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Records the outcome of an action that log_action has recorded.
 *
 * Returns false if there is no such record, or it has an outcome already.
 *
 * i_outcome -- done, or failed with the class of the error.
 */
begin
    update londiste.operator_log l
    set ended_at = clock_timestamp(), outcome = i_outcome
    where l.queue_name = i_queue_name and l.action_id = i_action_id and l.outcome is null;
    return found;
end;
$$;
