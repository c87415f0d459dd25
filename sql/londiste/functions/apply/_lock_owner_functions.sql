create or replace function londiste._lock_owner_functions()
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Locks the functions of _owner_function() against other sessions until the transaction ends.
 *
 * Every role can take an advisory lock, and so block the worker.  This lock of a table can only be
 * taken with a right to write into the table; readers and writers of its rows do not wait for it.
 */
begin
    lock table only londiste.created_object in share update exclusive mode;
end;
$$;
