create or replace function pgq._caller()
returns name
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the role for which the session acts: that of SET ROLE, or the one that logged in.
 *
 * For functions that run with the rights of their owner, where current_user is the owner.  A
 * function of another role that the session calls acts for the session, too.  So grants of rights
 * must not rely on this function.
 */
    select coalesce(nullif(current_setting('role'), 'none')::name, session_user);
$$;
