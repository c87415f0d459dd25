create or replace function pgq._session_role()
returns name
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the role of the session: that of SET ROLE, or the one that logged in.
 *
 * For messages only.  Rights are decided by _caller(), which also asks whether the code acts for that role.
 */
    select coalesce(nullif(current_setting('role'), 'none')::name, session_user);
$$;
