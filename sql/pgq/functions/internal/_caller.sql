create or replace function pgq._caller()
returns name
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * The role that the session acts for: that of SET ROLE, or the one that logged in.
 *
 * For functions that run with the rights of their owner, where current_user does not tell.  A
 * function of somebody else that the session calls acts for the session, too: what gives a right
 * must not rely on this.
 */
    select coalesce(nullif(current_setting('role'), 'none')::name, session_user);
$$;
