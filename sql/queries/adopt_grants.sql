/*
 * Roles that consume here, as the original lets everybody, and will lack a role: the GRANT for each.
 *
 * %(extensions)s -- those that are taken over.  Asked before; in the original the functions of pgq_ext
 * and pgq_coop are PUBLIC's.
 */
select pg_catalog.format('grant %%I to %%I', need.role, r.rolname)
from pg_catalog.pg_roles as r
    cross join (values ('pgq_ext', 'pgq_writer'), ('pgq_coop', 'pgq_reader')) as need (extension, role)
where r.rolcanlogin
    and not r.rolsuper
    and need.extension = any (%(extensions)s)
    and exists (
        select from pg_catalog.pg_roles as g
        where g.rolname in ('pgq_reader', 'pgq_writer', 'pgq_admin')
            and pg_catalog.pg_has_role(r.oid, g.oid, 'usage'))
    and not exists (
        select from pg_catalog.pg_roles as g
        where g.rolname = need.role and pg_catalog.pg_has_role(r.oid, g.oid, 'usage'))
order by 1
