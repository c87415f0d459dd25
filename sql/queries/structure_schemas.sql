-- The schemas %(names)s: owner, and what others may do there; grantee NULL is PUBLIC.
select
    n.nspname::text as name,
    pg_catalog.pg_get_userbyid(n.nspowner)::text as owner,
    coalesce((
        select pg_catalog.jsonb_agg(
            pg_catalog.jsonb_build_object('grantee', r.rolname, 'privilege', x.privilege_type,
                'grantable', x.is_grantable)
            order by r.rolname nulls first, x.is_grantable, x.privilege_type)
        from pg_catalog.aclexplode(n.nspacl) x
        left join pg_catalog.pg_roles r on r.oid = x.grantee
        where x.grantee <> n.nspowner), '[]') as grants
from pg_catalog.pg_namespace n
where n.nspname = any(%(names)s::text[])
order by 1
