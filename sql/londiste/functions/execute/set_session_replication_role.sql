create or replace function londiste.set_session_replication_role(val text, is_local boolean)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Sets session_replication_role to origin, replica or local, for the session or (is_local)
 * until the transaction ends.
 *
 * It helps callers only where the owner of this function may set it: a superuser, or a
 * role with GRANT SET ON PARAMETER.  For the session only for who may set it himself: a session
 * that stays a replica writes without triggers and foreign keys, and behind a pooler somebody else
 * has it next.  Error LD005 for another value, 42501 where it is for the transaction only.
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
        -- The function is one of PostgreSQL 15.
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
