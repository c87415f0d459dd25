create or replace function pgq._may_maintain(i_function text)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Whether the session may call a function of extra_maint.  Whoever may set extra_maint could otherwise have the
 * maintenance daemon do what he likes, with the name of a queue that he chooses.
 *
 * Of our own functions those for maintenance; of others those whose owner has the rights of the session anyway, but
 * for functions of the server and of extensions.  A function that is not there may be there, and somebody's, when
 * it is called.
 */
    select i_function in (
            'pgq_node.maint_watermark', 'londiste.root_check_seqs', 'pgq.maint_purge_keys')
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
