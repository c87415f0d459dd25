create or replace function pgq._may_maintain(i_function text)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Whether the session may call a function of extra_maint: its owner has the rights of the session anyway.  Whoever
 * may set extra_maint could otherwise have the maintenance daemon do what he likes.  A function that is not there
 * may be there, and somebody's, when it is called.
 */
    select exists (
        select
        from pg_proc as p
            join pg_namespace as n on n.oid = p.pronamespace
        where p.oid = to_regprocedure(i_function || '(text)')
            and (n.nspname in ('pgq', 'pgq_node', 'pgq_ext', 'pgq_coop', 'londiste')
                or pg_has_role(p.proowner, current_user, 'usage')));
$$;
