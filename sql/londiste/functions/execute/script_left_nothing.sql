create or replace function londiste.script_left_nothing(i_queue_name text, i_file_name text)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Records that a statement outside a transaction was refused before it changed anything.
 *
 * An object that its repetition finds is then not the work of an interrupted run.
 */
update londiste.script_state
set started = false
where queue_name = i_queue_name and execute_file = i_file_name;
$$;
