/*
 * The roles of the server, and what this session can give them.
 *
 * %(own)s -- the privilege to give objects to a role: SET, before PostgreSQL 16 MEMBER.
 * ownable -- whether the session may make it an owner, and still has its rights then: without them
 * nothing could be created in its schemas.
 * closed -- of those, schemas in which the role may not create: only a superuser may make it an
 * owner there.
 */
select r.rolname::text as role, o.ownable,
    case when o.ownable and not u.rolsuper then array(
        select pg_catalog.quote_ident(n.nspname)
        from pg_catalog.pg_namespace n
        where n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
            and not pg_catalog.has_schema_privilege(r.oid, n.oid, 'CREATE')
        order by 1)
    else '{}' end as closed
from pg_catalog.pg_roles r
cross join pg_catalog.pg_roles u
cross join lateral (
    select u.rolsuper or pg_catalog.pg_has_role(r.oid, %(own)s)
        and pg_catalog.pg_has_role(r.oid, 'USAGE') as ownable
) o
where u.rolname = current_user
order by 1
