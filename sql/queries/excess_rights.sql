-- Roles, members of no group of administrators, that can write where only administrators may.
-- %(schemas)s -- those of Londiste.  %(nodes)s -- table names of the queues that are nodes: event_1.
--   role         quoted; public: every role
--   relations    tables, views and sequences that it can write
--   routines     functions of administrators that it can call
--   statements   that revoke it
-- Producers may insert into the tables of events of other queues, and take numbers of events there:
-- pgq.grant_produce() gives these rights.  A function that readers or writers of queues may call is none of
-- administrators, nor is one without rights of its own, nor one that captures: only triggers call it.
with place as (
    select n.oid, n.nspname::text as name
    from pg_catalog.pg_namespace n
    where n.nspname = any (%(schemas)s::text[])
), relation as (
    select p.name as place, c.oid, c.relowner, c.relacl, c.relkind = 'S' as sequence, c.relname,
        case when p.name = 'pgq' then pg_catalog.substring(c.relname, '^event_(?:template$|[0-9]+)') end as queue
    from place p
    join pg_catalog.pg_class c on c.relnamespace = p.oid and c.relkind in ('r', 'p', 'v', 'S')
), held as (
    select r.place, r.sequence, false as routine, r.oid as object, r.relowner as owner, a.grantee,
        r.relname as name, r.queue, a.privilege_type as privilege, a.is_grantable
    from relation r
    -- Also rights on columns, which end with those on the table.
    cross join lateral (
        select r.relacl
        union all
        select c.attacl from pg_catalog.pg_attribute c
        where c.attrelid = r.oid and c.attacl is not null
    ) as given (acl)
    cross join pg_catalog.aclexplode(given.acl) a
    where a.privilege_type in ('UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER')
        or a.privilege_type = 'INSERT' and (r.queue is null or r.queue = any (%(nodes)s::text[]))
        or a.privilege_type = 'USAGE' and r.queue is not null
            and (r.relname !~ '_id_seq$' or r.queue = any (%(nodes)s::text[]))
    union all
    select p.name, false, true, f.oid, f.proowner, a.grantee, f.proname, null, a.privilege_type,
        a.is_grantable
    from place p
    join pg_catalog.pg_proc f on f.pronamespace = p.oid and f.prosecdef
    cross join pg_catalog.aclexplode(f.proacl) a
    where p.name <> 'londiste_capture'
        and not exists (
            select
            from pg_catalog.aclexplode(f.proacl) d
            left join pg_catalog.pg_roles r on r.oid = d.grantee
            where d.grantee = 0 or r.rolname in ('pgq_reader', 'pgq_writer'))
), excess as (
    select h.*, coalesce(pg_catalog.quote_ident(g.rolname), 'public') as role,
        -- Of tables and sequences of events nothing else is revoked: the role may be a producer.
        case when h.queue is not null and (h.sequence or pg_catalog.bool_and(h.queue is not null)
                over (partition by h.grantee, h.place, h.sequence, h.routine))
            then pg_catalog.lower(h.privilege) end as alone
    from held h
    left join pg_catalog.pg_roles g on g.oid = h.grantee
    -- As londiste._acts_as_caller().
    cross join lateral (
        select case when pg_catalog.current_setting('server_version_num')::int4 < 160000 then 'MEMBER' else 'USAGE, SET' end
    ) as trust (by)
    where h.grantee = 0 or g.oid is not null and not g.rolsuper
        and (g.rolname not in ('pgq_reader', 'pgq_writer', 'pgq_admin', 'londiste_reader', 'londiste_writer')
            or h.queue = any (%(nodes)s::text[]))
        and not pg_catalog.pg_has_role(g.oid, h.owner, trust.by)
        and not exists (
            select from pg_catalog.pg_roles a
            where a.rolname = 'pgq_admin' and pg_catalog.pg_has_role(g.oid, a.oid, trust.by))
), statement as (
    select e.role, pg_catalog.format(
        case
            when e.alone is not null and e.sequence then 'revoke %%3$s on sequence %%4$s from %%2$s'
            when e.alone is not null then 'revoke %%3$s on %%4$s from %%2$s'
            when e.routine then 'revoke execute on all functions in schema %%1$s from %%2$s'
            when e.sequence then 'revoke update on all sequences in schema %%1$s from %%2$s'
            else 'revoke insert, update, delete, truncate, references, trigger'
                ' on all tables in schema %%1$s from %%2$s'
        end,
        e.place, e.role, e.alone,
        pg_catalog.string_agg(distinct pg_catalog.format('%%I.%%I', e.place, e.name), ', '))
        || case when pg_catalog.bool_or(e.is_grantable) then ' cascade' else '' end as text
    from excess e
    group by e.role, e.place, e.routine, e.sequence, e.alone
)
select
    e.role,
    pg_catalog.count(distinct e.object) filter (where not e.routine) as relations,
    pg_catalog.count(distinct e.object) filter (where e.routine) as routines,
    array(select s.text from statement s where s.role = e.role order by s.text) as statements
from excess e
group by e.role
order by e.role
