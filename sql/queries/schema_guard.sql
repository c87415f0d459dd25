-- For a session with the rights of a superuser: which of the schemas %(schemas)s are missing, and
-- whether a role that is none owns one of the others, or an object in it, or may create one there.
-- Then schema_doubts decides.  (pg_shdepend has no rows for what belongs to the first superuser of a
-- server, role 10, who may be none any more before PostgreSQL 16.)
--   absent, doubtful
--   closed  they were looked at, and only a superuser can make those that are there doubtful
with superuser as materialized (
    select r.oid from pg_catalog.pg_roles r where r.rolsuper
), place as materialized (
    select n.oid, n.nspname::text as name, n.nspowner, n.nspacl
    from pg_catalog.pg_namespace n
    where n.nspname = any (%(schemas)s::text[])
)
select
    array(select s.name from unnest(%(schemas)s::text[]) as s(name)
        where me.rolsuper and s.name not in (select p.name from place p)) as absent,
    me.rolsuper and (
        exists (select from place p where p.nspowner not in (select s.oid from superuser s))
        or 10 not in (select s.oid from superuser s)
        or exists (
            select from place p
            cross join pg_catalog.aclexplode(p.nspacl) a
            left join pg_catalog.pg_roles g on g.oid = a.grantee
            where a.privilege_type = 'CREATE' and a.grantee <> p.nspowner
                and g.rolsuper is not true
                and (p.name not in ('londiste', 'londiste_capture')
                    or g.rolname is distinct from 'londiste_writer'))
        or exists (
            select from pg_catalog.pg_shdepend o
            join pg_catalog.pg_depend d on d.classid = o.classid and d.objid = o.objid
            join place p on p.oid = d.refobjid
            where o.dbid = (
                    select b.oid from pg_catalog.pg_database b
                    where b.datname = pg_catalog.current_database())
                and o.deptype = 'o'
                and o.refobjid not in (select s.oid from superuser s)
                and d.refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass
                and p.name <> 'londiste_capture')
    ) as doubtful,
    me.rolsuper and not exists (
        select from place p
        cross join pg_catalog.aclexplode(p.nspacl) a
        where p.name = 'londiste' and a.privilege_type = 'CREATE' and a.grantee <> p.nspowner
    ) as closed
from pg_catalog.pg_roles me
where me.rolname = session_user
