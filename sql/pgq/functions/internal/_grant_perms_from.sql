create or replace function pgq._grant_perms_from(
    src_schema text,
    src_table text,
    dst_schema text,
    dst_table text
)
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Copies the privileges on the first table to the second one, for all roles.
 *
 * Adds only: other privileges on the second table stay.
 */
declare
    v_grant record;
begin
    for v_grant in
        select
            string_agg(a.privilege_type, ', ' order by a.privilege_type) as privileges,
            case when a.grantee = 0 then 'public' else quote_ident(r.rolname) end as grantee,
            a.is_grantable
        from pg_class c
        join pg_namespace n on n.oid = c.relnamespace
        cross join lateral aclexplode(c.relacl) as a
        left join pg_roles r on r.oid = a.grantee
        where n.nspname = src_schema
            and c.relname = src_table
            and a.grantee <> c.relowner
            and (a.grantee = 0 or r.oid is not null)
        group by a.grantee, r.rolname, a.is_grantable
    loop
        execute format(
            'grant %s on %I.%I to %s%s',
            v_grant.privileges,
            dst_schema,
            dst_table,
            v_grant.grantee,
            case when v_grant.is_grantable then ' with grant option' else '' end
        );
    end loop;
    return 1;
end;
$$;
