-- Why the role of this session should not run code in the schemas %(schemas)s, the worst first.
-- Who owns a schema can drop what is in it and create it again.  So its owner must have all rights
-- of the role that trusts it, and so must the owners of what is in it, and who may create there.
-- That role is the one of this session if it installs (%(installing)s) or is a superuser, else the
-- owner of the ledger.  A superuser who has connected as another role stays one: set role leads
-- back.  An installer may also use the rights of the owner of what is installed: whoever has granted
-- them to it has consented for it, if that was a superuser, or a role that could become the installer.
-- Others can make such an owner themselves: they grant it to the installer, who is not asked.
--   schema, message, detail, hint   of the doubt
--   of_owner  it is about the owner of the schema
with recursive place as (
    select n.oid, n.nspname::text as name, n.nspowner, n.nspacl, l.oid is not null as installed,
        case when me.rolsuper or %(installing)s then me.oid else l.relowner end as trusting
    from pg_catalog.pg_namespace n
    join pg_catalog.pg_roles me on me.rolname = (
        select case when r.rolsuper then session_user else current_user end
        from pg_catalog.pg_roles r where r.rolname = session_user)
    left join pg_catalog.pg_namespace of on of.nspname =
        case n.nspname when 'londiste_capture' then 'londiste' else n.nspname end
    left join pg_catalog.pg_class l
        on l.relnamespace = of.oid and l.relname = 'installed_file' and l.relkind = 'r'
    where n.nspname = any (%(schemas)s::text[])
), granted as (
    -- Before PostgreSQL 16 each membership could be used, by an attribute of the member.
    select a.roleid, a.member, a.grantor,
        coalesce((o.options ->> 'inherit_option')::pg_catalog.bool, r.rolinherit) as inherits,
        a.admin_option or coalesce((o.options ->> 'inherit_option')::pg_catalog.bool
            or (o.options ->> 'set_option')::pg_catalog.bool, true) as acts
    from pg_catalog.pg_auth_members a
    join pg_catalog.pg_roles r on r.oid = a.member
    cross join lateral (select pg_catalog.to_jsonb(a)) as o (options)
    union all
    -- In it is the owner of the database, by no grant.
    select o.oid, b.datdba, b.datdba, true, true
    from pg_catalog.pg_database b, pg_catalog.pg_roles o
    where b.datname = pg_catalog.current_database() and o.rolname = 'pg_database_owner'
), could_become (trusting, role) as (
    select p.trusting, r.oid
    from (select distinct trusting from place) p
    join pg_catalog.pg_roles r on r.oid = p.trusting or r.rolsuper
        -- It may grant itself any role.
        or r.rolcreaterole
            and pg_catalog.current_setting('server_version_num')::pg_catalog.int4 < 160000
    union
    select b.trusting, g.member
    from could_become b
    join granted g on g.roleid = b.role and g.acts
), consented (trusting, role) as (
    select distinct p.trusting, p.trusting from place p
    union
    select c.trusting, g.roleid
    from consented c
    join granted g on g.member = c.role and g.inherits
    where g.roleid = 'pg_database_owner'::pg_catalog.regrole
        or exists (select from could_become b where b.trusting = c.trusting and b.role = g.grantor)
), item as (
    select p.oid as place, 1 as rank, p.nspowner as role, '' as kind, 0::oid as object
    from place p
    union all
    select p.oid, 2, a.grantee, '', 0::oid
    from place p
    cross join pg_catalog.aclexplode(p.nspacl) a
    left join pg_catalog.pg_roles g on g.oid = a.grantee
    where a.privilege_type = 'CREATE' and a.grantee <> p.nspowner
        -- Captures belong to who captures.  In older releases they were beside the other functions:
        -- the upgrade revokes that right.
        and not (g.rolname is not distinct from 'londiste_writer'
            and (p.name = 'londiste_capture' or p.name = 'londiste' and %(installing)s))
    union all
    select p.oid, 3, c.relowner,
        case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence'
            when 'f' then 'foreign table' when 'c' then 'type' else 'table' end,
        c.oid
    from place p
    join pg_catalog.pg_class c
        on c.relnamespace = p.oid and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f', 'c')
    where p.name <> 'londiste_capture'
    union all
    select p.oid, 3, f.proowner, 'routine', f.oid
    from place p
    join pg_catalog.pg_proc f on f.pronamespace = p.oid
    where p.name <> 'londiste_capture'
        -- Of older releases, and called by no name.
        and not (p.name = 'londiste'
            and (pg_catalog.starts_with(f.proname::text, '_capture_')
                    and f.prorettype = 'pg_catalog.trigger'::pg_catalog.regtype
                or f.proname ~ '^_key_changed_[0-9a-f]{32}$'))
    union all
    select p.oid, 3, t.typowner, 'domain', t.oid
    from place p
    join pg_catalog.pg_type t on t.typnamespace = p.oid and t.typrelid = 0 and t.typelem = 0
    where p.name <> 'londiste_capture'
), doubt as (
    select p.name as schema, i.rank,
        -- Only of these: the names of hundreds of functions take longer than all the rest.
        case i.kind
            when '' then ''
            when 'routine' then (
                select 'routine ' || p.name || '.' || pg_catalog.quote_ident(f.proname) || '('
                    || pg_catalog.pg_get_function_identity_arguments(f.oid) || ')'
                from pg_catalog.pg_proc f where f.oid = i.object)
            when 'domain' then (
                select 'type ' || p.name || '.' || pg_catalog.quote_ident(t.typname)
                from pg_catalog.pg_type t where t.oid = i.object)
            else (
                select i.kind || ' ' || p.name || '.' || pg_catalog.quote_ident(c.relname)
                from pg_catalog.pg_class c where c.oid = i.object)
        end as object,
        case i.role when 0 then 'public' else pg_catalog.quote_ident(r.rolname) end as role,
        pg_catalog.quote_ident(t.rolname) as trusting,
        -- What is installed may lack nothing.
        not p.installed and not exists (
            select from pg_catalog.pg_depend o
            where o.refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass
                and o.refobjid = p.oid) as empty,
        exists (select from item o where o.place = i.place and o.rank = 3 and o.role = i.role)
            as owns,
        p.installed and not t.rolsuper and i.role <> 0 and pg_catalog.pg_has_role(t.oid, i.role, 'usage')
            as uses
    from item i
    join place p on p.oid = i.place
    join pg_catalog.pg_roles t on t.oid = p.trusting
    -- As londiste._acts_as_caller().
    cross join lateral (
        select case when pg_catalog.current_setting('server_version_num')::int4 < 160000 then 'MEMBER' else 'USAGE, SET' end
    ) as trust (by)
    left join pg_catalog.pg_roles r on r.oid = i.role
    where i.role = 0 or not (
        pg_catalog.pg_has_role(i.role, t.oid, trust.by)
        or p.installed and not t.rolsuper
            and (t.oid, i.role) in (select c.trusting, c.role from consented c)
        or i.rank > 1 and pg_catalog.pg_has_role(i.role, p.nspowner, trust.by))
), named as (
    select d.schema, d.rank, d.role, d.trusting, d.empty, d.owns, d.uses,
        pg_catalog.min(d.object) as object,
        pg_catalog.count(*) as objects
    from doubt d
    group by d.schema, d.rank, d.role, d.trusting, d.empty, d.owns, d.uses
)
select
    n.schema,
    n.rank = 1 as of_owner,
    case n.rank
        when 1 then 'schema ' || n.schema || ' belongs to role ' || n.role
        when 2 then case n.role when 'public' then 'every role' else 'role ' || n.role end
            || ' may create objects in schema ' || n.schema
        else n.object || ' belongs to role ' || n.role
            || case when n.objects > 1 then ', and ' || n.objects - 1 || ' more objects of the schema'
                else '' end
    end as message,
    case n.rank
        when 1 then 'that role can replace functions that '
        when 2 then 'whoever creates functions there can have them run by what '
        else 'that role can change what '
    end || n.trusting || ' calls, and so act as ' || n.trusting
        || case when n.uses then '; ' || n.trusting || ' is a member of ' || n.role
                || ', but by a grant of a role that could not become ' || n.trusting
            else '' end as detail,
    case
        when n.rank = 1 and n.empty then 'it is empty: drop schema ' || n.schema
        when n.rank = 1 and n.uses
            then 'drop schema ' || n.schema || ' cascade; or, if ' || n.trusting
                || ' is to run what any member of ' || n.role || ' installs, as a superuser: revoke '
                || n.role || ' from ' || n.trusting || '; grant ' || n.role || ' to ' || n.trusting
        when n.rank = 1 and n.owns
            then 'connect as role ' || n.role || ', which owns the objects there, or drop the schema'
                || ' with all its rows: drop schema ' || n.schema || ' cascade'
        when n.rank = 1
            then 'look at the objects there; then: alter schema ' || n.schema || ' owner to '
                || n.trusting
        when n.rank = 2
            then 'look at the objects there; then: revoke create on schema ' || n.schema || ' from '
                || n.role
        else 'if it is not of Londiste: drop ' || n.object || '; else: alter ' || n.object
            || ' owner to ' || n.trusting
    end as hint
from named n
order by n.rank, n.schema, n.role
