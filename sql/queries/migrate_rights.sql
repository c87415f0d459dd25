/*
 * Owners, grants and comments of schemas, functions, sequences and views; kind and signature as in
 * migrate_objects.
 *
 * closed -- PUBLIC lacks the right that it has by default; grants -- to others than the owner:
 * grantee (null: PUBLIC), privilege, grantable.
 */
select o.kind, o.signature, pg_catalog.pg_get_userbyid(o.owner)::text as owner,
    pg_catalog.obj_description(o.oid, o.catalog) as comment,
    o.kind in ('function', 'procedure') and o.acl is not null and not exists (
        select from pg_catalog.aclexplode(o.acl) x where x.grantee = 0) as closed,
    coalesce((
        select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
            'grantee', r.rolname, 'privilege', x.privilege_type, 'grantable', x.is_grantable)
            order by r.rolname nulls first, x.privilege_type)
        from pg_catalog.aclexplode(o.acl) x
        left join pg_catalog.pg_roles r on r.oid = x.grantee
        where x.grantee <> o.owner), '[]') as grants
from (
    select n.oid, 'pg_namespace' as catalog, 'schema' as kind,
        pg_catalog.quote_ident(n.nspname) as signature, n.nspowner as owner, n.nspacl as acl
    from pg_catalog.pg_namespace n
    where n.nspname !~ '^pg_'
    union all
    select p.oid, 'pg_proc', case p.prokind when 'p' then 'procedure' else 'function' end,
        pg_catalog.format('%I.%I(%s)', n.nspname, p.proname,
            pg_catalog.pg_get_function_identity_arguments(p.oid)), p.proowner, p.proacl
    from pg_catalog.pg_proc p
    join pg_catalog.pg_namespace n on n.oid = p.pronamespace
    where p.prokind <> 'a' and n.nspname <> 'information_schema' and n.nspname !~ '^pg_'
    union all
    select c.oid, 'pg_class',
        case c.relkind when 'S' then 'sequence' when 'v' then 'view' else 'materialized view' end,
        pg_catalog.format('%I.%I', n.nspname, c.relname), c.relowner, c.relacl
    from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('S', 'v', 'm') and n.nspname <> 'information_schema'
        and n.nspname !~ '^pg_'
) o
order by 1, 2
