create or replace function londiste._set_for_worker(i_name text, i_value text, i_is_local boolean)
returns void
language plpgsql
as $$
/*
 * Sets session_replication_role for the session or, with i_is_local, for the transaction.
 *
 * It works also for a caller that may do so only by set_session_replication_role().  The function
 * does not pin search_path: the setting must outlive it.
 */
begin
    perform pg_catalog.set_config(i_name, i_value, i_is_local);
exception
    when insufficient_privilege then
        perform londiste.set_session_replication_role(i_value, i_is_local);
end;
$$;
