create or replace function londiste._is_of_others(i_owner oid)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether tables of this owner are written with the rights of their owner.
 *
 * They are when the caller is a member of the owner, and the owner cannot act as the caller.  The result
 * is false for tables of the caller and of superusers, and for a caller that is no member of the
 * owner.  It is also false where the session has the setting run_as_owner off.
 */
select not londiste._acts_as_caller(i_owner)
    and pg_has_role(current_user, i_owner, 'MEMBER')
    and coalesce(current_setting('londiste.run_as_owner', true), '') <> 'off';
$$;
