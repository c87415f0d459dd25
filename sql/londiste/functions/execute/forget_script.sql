create or replace function londiste.forget_script(i_queue_name text, i_file_name text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Forgets that a script has run on this node, so that one of its name runs again; true when it was known.
 *
 * For a root that was lost and comes back: what ran there only was undone by hand.
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
