create or replace function pgq._may_maintain(i_function text)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether the session may call a function of extra_maint.
 *
 * Without this check a role that may set extra_maint could make the maintenance daemon run any
 * function, with a queue name of its choice.
 *
 * Of Londiste's own functions those for maintenance are allowed, where they are installed.  Of others
 * those are allowed whose owner has the rights of the session anyway, except functions of the server
 * and of extensions.  A function that does not exist yet may exist, with any owner, at the time of the
 * call.
 */
    select i_function in (
            'pgq_node.maint_watermark', 'londiste.root_check_seqs', 'pgq.maint_purge_keys')
            and pgq._component_has(i_function || '(text)')
        or exists (
            select
            from pg_proc as p
                join pg_namespace as n on n.oid = p.pronamespace
            where p.oid = to_regprocedure(i_function || '(text)')
                and n.nspname not in ('pg_catalog', 'information_schema', 'pgq', 'pgq_node',
                    'pgq_ext', 'pgq_coop', 'londiste', 'londiste_capture', 'londiste_apply')
                and pg_has_role(p.proowner, current_user, 'usage')
                and not exists (
                    select from pg_depend as d
                    where d.classid = 'pg_proc'::regclass
                        and d.objid = p.oid
                        and d.deptype = 'e'));
$$;
