-- Roles, members of no group of administrators, that can write where only administrators may.
-- %(schemas)s -- those of Londiste.
--   role         quoted; public: every role
--   relations    tables, views and sequences that it can write
--   routines     functions of administrators that it can call
--   statements   that revoke it
-- Producers may insert into the tables of events: pgq.grant_produce() gives that right.  A function that
-- readers or writers of queues may call is none of administrators, nor is one without rights of its own.
-- The owner of a captured table may call the function that captures it.
with place as (
    select n.oid, n.nspname::text as name
    from pg_catalog.pg_namespace n
    where n.nspname = any (%(schemas)s::text[])
), held as (
    select p.name as place, c.relkind = 'S' as sequence, false as routine, c.oid as object,
        c.relowner as owner, a.grantee, '' as call
    from place p
    join pg_catalog.pg_class c on c.relnamespace = p.oid and c.relkind in ('r', 'p', 'v', 'S')
    cross join pg_catalog.aclexplode(c.relacl) a
    where a.privilege_type in ('UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER')
        or a.privilege_type = 'INSERT' and not (p.name = 'pgq' and c.relname ~ '^event_')
    union
    select p.name, false, true, f.oid, f.proowner, a.grantee,
        case p.name when 'londiste_capture' then f.oid::pg_catalog.regprocedure::text else '' end
    from place p
    join pg_catalog.pg_proc f on f.pronamespace = p.oid and f.prosecdef
    cross join pg_catalog.aclexplode(f.proacl) a
    where case p.name
        when 'londiste_capture' then not exists (
            select
            from pg_catalog.pg_trigger t
            join pg_catalog.pg_class c on c.oid = t.tgrelid
            where t.tgfoid = f.oid and c.relowner = a.grantee)
        else not exists (
            select
            from pg_catalog.aclexplode(f.proacl) d
            left join pg_catalog.pg_roles r on r.oid = d.grantee
            where d.grantee = 0 or r.rolname in ('pgq_reader', 'pgq_writer'))
        end
), excess as (
    select h.*, coalesce(pg_catalog.quote_ident(g.rolname), 'public') as role
    from held h
    left join pg_catalog.pg_roles g on g.oid = h.grantee
    where h.grantee = 0 or g.oid is not null and not g.rolsuper
        and g.rolname not in ('pgq_reader', 'pgq_writer', 'pgq_admin', 'londiste_reader', 'londiste_writer')
        and not pg_catalog.pg_has_role(g.oid, h.owner, 'member')
        and not exists (
            select from pg_catalog.pg_roles a
            where a.rolname = 'pgq_admin' and pg_catalog.pg_has_role(g.oid, a.oid, 'member'))
), statement as (
    select e.role, pg_catalog.format(
        case
            when e.call <> '' then 'revoke execute on function %%3$s from %%2$s'
            when e.routine then 'revoke execute on all functions in schema %%1$s from %%2$s'
            when e.sequence then 'revoke update on all sequences in schema %%1$s from %%2$s'
            else 'revoke insert, update, delete, truncate, references, trigger'
                ' on all tables in schema %%1$s from %%2$s'
        end,
        e.place, e.role, e.call) as text
    from excess e
    group by e.role, e.place, e.routine, e.sequence, e.call
)
select
    e.role,
    pg_catalog.count(distinct e.object) filter (where not e.routine) as relations,
    pg_catalog.count(distinct e.object) filter (where e.routine) as routines,
    array(select s.text from statement s where s.role = e.role order by s.text) as statements
from excess e
group by e.role
order by e.role
