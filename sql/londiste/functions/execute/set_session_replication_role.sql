create or replace function londiste.set_session_replication_role(val text, is_local boolean)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Sets session_replication_role to origin, replica or local.
 *
 * is_local -- true: until the transaction ends; false: for the session.
 *
 * The function works only where its owner may set the parameter: a superuser, or a role with GRANT
 * SET ON PARAMETER.  For the session, the caller must have that right, too: a replica session
 * writes without triggers and foreign keys, and after a pooler another client gets it next.
 *
 * Raises LD005 for another value, and 42501 where the caller may set it for the transaction only.
 */
declare
    v_caller name := pgq._caller();
    v_may boolean := (select r.rolsuper from pg_roles as r where r.rolname = v_caller);
begin
    if val is null or val not in ('origin', 'replica', 'local') then
        raise exception using
            errcode = 'LD005',
            message = format('invalid session_replication_role: %s', coalesce(val, 'NULL')),
            hint = 'use origin, replica or local';
    end if;
    if is_local is not true and not v_may then
        -- The function exists since PostgreSQL 15.
        if current_setting('server_version_num')::int4 >= 150000 then
            execute 'select has_parameter_privilege($1, ''session_replication_role'', ''set'')'
            into v_may
            using v_caller;
        end if;
        if not v_may then
            raise exception using
                errcode = '42501',
                message = 'session_replication_role is set until the transaction ends only',
                detail = format('role %s may not set it itself', v_caller),
                hint = format(
                    'in each transaction: select londiste.set_session_replication_role(%L, true)', val);
        end if;
    end if;
    perform set_config('session_replication_role', val, coalesce(is_local, false));
end;
$$;
