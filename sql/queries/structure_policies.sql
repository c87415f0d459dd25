/*
 * Row security policies of tables.
 *
 * %(oids)s -- the tables.
 * roles -- by name; empty means PUBLIC.
 */
select
    p.polrelid::int8 as oid,
    p.polname::text as name,
    p.polcmd::text as command,
    p.polpermissive as permissive,
    array(
        select r.rolname::text from pg_catalog.pg_roles r
        where r.oid = any(p.polroles) order by r.rolname
    ) as roles,
    pg_catalog.pg_get_expr(p.polqual, p.polrelid) as "using",
    pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid) as "check",
    pg_catalog.obj_description(p.oid, 'pg_policy') as comment
from pg_catalog.pg_policy p
where p.polrelid = any(%(oids)s::oid[])
order by p.polrelid, p.polname
