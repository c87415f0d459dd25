create or replace function londiste.set_session_replication_role(val text, is_local boolean)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Sets session_replication_role to origin, replica or local until the transaction ends.
 *
 * It helps callers only where the owner of this function may set it: a superuser, or a
 * role with GRANT SET ON PARAMETER.  Error LD005 for any other value, and for is_local false: a
 * session that stays a replica writes without triggers and foreign keys, and behind a pooler
 * somebody else has it next.
 */
begin
    if val is null or val not in ('origin', 'replica', 'local') then
        raise exception using
            errcode = 'LD005',
            message = format('invalid session_replication_role: %s', coalesce(val, 'NULL')),
            hint = 'use origin, replica or local';
    end if;
    if is_local is not true then
        raise exception using
            errcode = 'LD005',
            message = 'session_replication_role is set for a transaction only',
            hint = format('in each transaction: select londiste.set_session_replication_role(%L, true)', val);
    end if;
    perform set_config('session_replication_role', val, true);
end;
$$;
