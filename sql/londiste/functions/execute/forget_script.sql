create or replace function londiste.forget_script(i_queue_name text, i_file_name text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Deletes the record that a script has run on this node, so that a script of this name can run again.
 *
 * Returns true when there was a record.  For a failed root that rejoins: the effects of scripts that
 * ran only there were undone manually.
 */
declare
    v_known boolean;
begin
    delete from londiste.applied_execute a
    where a.queue_name = i_queue_name and a.execute_file = i_file_name;
    v_known := found;
    delete from londiste.script_state s
    where s.queue_name = i_queue_name and s.execute_file = i_file_name;
    return v_known or found;
end;
$$;
