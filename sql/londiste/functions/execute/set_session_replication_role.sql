create or replace function londiste.set_session_replication_role(val text, is_local boolean)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Sets session_replication_role to origin, replica or local, for the session or (is_local)
 * for the transaction.
 *
 * It helps callers only where the owner of this function may set it: a superuser, or a
 * role with GRANT SET ON PARAMETER.  Error LD005 for any other value.
 */
begin
    if val is null or val not in ('origin', 'replica', 'local') then
        raise exception using
            errcode = 'LD005',
            message = format('invalid session_replication_role: %s', coalesce(val, 'NULL')),
            hint = 'use origin, replica or local';
    end if;
    perform set_config('session_replication_role', val, coalesce(is_local, false));
end;
$$;
