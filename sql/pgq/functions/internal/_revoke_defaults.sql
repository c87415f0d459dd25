create or replace function pgq._revoke_defaults(i_kind text, i_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Revokes all rights on a new object that default privileges of its owner have given to other roles.
 *
 * Default privileges are for the tables of applications.  Call it before the first GRANT.
 *
 * i_kind -- table, sequence, function or schema.
 * i_name -- the quoted name, of a function with its arguments.
 */
declare
    v_role text;
begin
    for v_role in
        select distinct case a.grantee when 0 then 'public' else a.grantee::regrole::text end
        from (
            select c.relacl, c.relowner
            from pg_class c
            where i_kind in ('table', 'sequence') and c.oid = to_regclass(i_name)
            union all
            select p.proacl, p.proowner
            from pg_proc p
            where i_kind = 'function' and p.oid = to_regprocedure(i_name)
            union all
            select n.nspacl, n.nspowner
            from pg_namespace n
            where i_kind = 'schema' and n.oid = to_regnamespace(i_name)
        ) as o (acl, owner)
            cross join lateral aclexplode(o.acl) as a
        where a.grantee <> o.owner
    loop
        execute format('revoke all on %s %s from %s', i_kind, i_name, v_role);
    end loop;
end;
$$;
