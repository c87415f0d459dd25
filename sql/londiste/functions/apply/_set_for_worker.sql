create or replace function londiste._set_for_worker(i_name text, i_value text, i_is_local boolean)
returns void
language plpgsql
as $$
/*
 * Sets session_replication_role for the session or (i_is_local) for the transaction, also for a
 * caller that may do so by set_session_replication_role() only.  No search_path is pinned: the
 * setting has to outlive the function.
 */
begin
    perform pg_catalog.set_config(i_name, i_value, i_is_local);
exception
    when insufficient_privilege then
        perform londiste.set_session_replication_role(i_value, i_is_local);
end;
$$;
