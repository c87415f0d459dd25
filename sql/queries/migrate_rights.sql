/*
 * Owners, grants and comments of the objects of a database, outside of the schemas of replication;
 * of default privileges, too.  Of extensions and the system only objects whose rights somebody
 * changed, unless "every" is true.
 *
 * kind, signature -- as SQL writes them; where migrate_objects has the object, the same as there.
 * owner -- of schema public of the bootstrap superuser: pg_database_owner, as of later releases.
 * definer -- it runs, or reads, with the rights of its owner: 'code', 'view', '' for neither.
 * given -- it belongs to an extension or to the system.
 * follows -- the owner is that of another object, or of an extension or the system.
 * grants -- in effect, also those by default: grantee (null: PUBLIC), own (of the owner),
 * column, privilege, grantable.
 */
with ours (name) as (
    values ('pgq'), ('pgq_ext'), ('pgq_coop'), ('pgq_node'), ('londiste'), ('londiste_capture'),
        ('londiste_apply')
), spaces as (
    select n.oid, n.nspname::text as name, n.nspowner, n.nspacl,
        n.nspname ~ '^pg_' as given
    from pg_catalog.pg_namespace n
    where n.nspname not in (select o.name from ours o)
        and n.nspname !~ '^pg_(toast|temp)' and n.nspname <> 'information_schema'
), found as (
    select 'pg_namespace'::pg_catalog.regclass as class, s.oid, 'schema' as kind,
        pg_catalog.quote_ident(s.name) as signature,
        s.nspowner as owner, s.nspacl as acl, 'n'::"char" as type, '' as definer, s.given
    from spaces s
    union all
    select p.tableoid, p.oid,
        case p.prokind when 'p' then 'procedure' when 'a' then 'aggregate' else 'function' end,
        pg_catalog.format('%%I.%%I(%%s)', s.name, p.proname, case p.prokind
            when 'a' then pg_catalog.oidvectortypes(p.proargtypes)
            else pg_catalog.pg_get_function_identity_arguments(p.oid) end),
        p.proowner, p.proacl, 'f', case when p.prosecdef then 'code' else '' end, s.given
    from pg_catalog.pg_proc p join spaces s on s.oid = p.pronamespace
    -- Of a range type, made with it.
    where not exists (
        select from pg_catalog.pg_depend d
        where d.classid = p.tableoid and d.objid = p.oid and d.deptype = 'i')
    union all
    select c.tableoid, c.oid,
        case c.relkind when 'S' then 'sequence' when 'v' then 'view' when 'm'
            then 'materialized view' when 'f' then 'foreign table' else 'table' end,
        pg_catalog.format('%%I.%%I', s.name, c.relname), c.relowner, c.relacl,
        case c.relkind when 'S' then 's' else 'r' end::"char",
        case when c.relkind = 'v' and not exists (
                select from pg_catalog.pg_options_to_table(c.reloptions) o
                where o.option_name = 'security_invoker'
                    and o.option_value in ('true', 'on', 'yes', '1'))
            then 'view' else '' end,
        s.given
    from pg_catalog.pg_class c join spaces s on s.oid = c.relnamespace
    where c.relkind in ('r', 'p', 'S', 'v', 'm', 'f') and c.relpersistence <> 't'
    union all
    -- Without rights of its own; it may have a comment.
    select i.tableoid, i.oid, 'index', pg_catalog.format('%%I.%%I', s.name, i.relname),
        i.relowner, null, null, '', s.given
    from pg_catalog.pg_index x
    join pg_catalog.pg_class c on c.oid = x.indrelid and c.relkind = 'm'
    join pg_catalog.pg_class i on i.oid = x.indexrelid
    join spaces s on s.oid = i.relnamespace
    union all
    select t.tableoid, t.oid, case t.typtype when 'd' then 'domain' else 'type' end,
        pg_catalog.format('%%I.%%I', s.name, t.typname), t.typowner, t.typacl, 'T', '', s.given
    from pg_catalog.pg_type t
    join spaces s on s.oid = t.typnamespace
    left join pg_catalog.pg_class c on c.oid = t.typrelid
    -- Types of tables and of arrays have the rights of what they belong to.
    where (t.typtype in ('b', 'd', 'e', 'r') or c.relkind = 'c')
        and not exists (select from pg_catalog.pg_type e where e.typarray = t.oid)
    union all
    select l.tableoid, l.oid, 'language', pg_catalog.quote_ident(l.lanname), l.lanowner,
        l.lanacl, 'l', '', l.oid < 16384
    from pg_catalog.pg_language l
    where l.lanpltrusted
    union all
    select w.tableoid, w.oid, 'foreign data wrapper', pg_catalog.quote_ident(w.fdwname),
        w.fdwowner, w.fdwacl, 'F', '', false
    from pg_catalog.pg_foreign_data_wrapper w
    union all
    select v.tableoid, v.oid, 'server', pg_catalog.quote_ident(v.srvname), v.srvowner,
        v.srvacl, 'S', '', false
    from pg_catalog.pg_foreign_server v
    union all
    -- Those have an owner alone.
    select o.class, o.oid, case i.type when 'statistics object' then 'statistics' else i.type end,
        i.identity, o.owner, null, null, '', false
    from (
        select x.tableoid as class, x.oid, x.oprowner as owner, x.oprnamespace as space
        from pg_catalog.pg_operator x
        union all
        select x.tableoid, x.oid, x.opcowner, x.opcnamespace from pg_catalog.pg_opclass x
        union all
        select x.tableoid, x.oid, x.opfowner, x.opfnamespace from pg_catalog.pg_opfamily x
        union all
        select x.tableoid, x.oid, x.collowner, x.collnamespace from pg_catalog.pg_collation x
        union all
        select x.tableoid, x.oid, x.conowner, x.connamespace from pg_catalog.pg_conversion x
        union all
        select x.tableoid, x.oid, x.cfgowner, x.cfgnamespace from pg_catalog.pg_ts_config x
        union all
        select x.tableoid, x.oid, x.dictowner, x.dictnamespace from pg_catalog.pg_ts_dict x
        union all
        select x.tableoid, x.oid, x.stxowner, x.stxnamespace from pg_catalog.pg_statistic_ext x
        union all
        select x.tableoid, x.oid, x.evtowner, null from pg_catalog.pg_event_trigger x
    ) o
    left join spaces s on s.oid = o.space
    cross join lateral pg_catalog.pg_identify_object(o.class, o.oid, 0) i
    where o.oid >= 16384 and (o.space is null or not s.given)
    union all
    select d.tableoid, d.oid, 'default privileges',
        'for role ' || pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(d.defaclrole))
            || coalesce(' in schema ' || pg_catalog.quote_ident(s.name), '') || ' on '
            || case d.defaclobjtype when 'r' then 'tables' when 'S' then 'sequences'
                when 'f' then 'functions' when 'T' then 'types' when 'n' then 'schemas'
                else 'large objects' end,
        d.defaclrole, d.defaclacl, null, '', false
    from pg_catalog.pg_default_acl d
    left join spaces s on s.oid = d.defaclnamespace
    where d.defaclnamespace = 0 or s.oid is not null
), known as (
    select f.*, i.initprivs, e.objid is not null as member,
        coalesce(f.acl, pg_catalog.acldefault(f.type, f.owner)) as effective
    from found f
    left join pg_catalog.pg_init_privs i
        on i.classoid = f.class and i.objoid = f.oid and i.objsubid = 0
    left join pg_catalog.pg_depend e
        on e.classid = f.class and e.objid = f.oid and e.deptype = 'e'
)
select k.kind, k.signature, k.definer,
    case when k.kind = 'schema' and k.signature = 'public' and k.owner = 10
        then 'pg_database_owner'
        else pg_catalog.pg_get_userbyid(k.owner)::text end as owner,
    k.given or k.member as given,
    k.given or k.member or k.kind = 'index' or k.kind = 'sequence' and exists (
        select from pg_catalog.pg_depend d
        where d.classid = k.class and d.objid = k.oid and d.deptype in ('a', 'i')) as follows,
    case when k.class <> 'pg_default_acl'::pg_catalog.regclass and not (k.given or k.member)
        then pg_catalog.obj_description(k.oid, r.relname) end as comment,
    coalesce((
        select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
            'grantee', g.rolname, 'own', x.grantee = k.owner, 'column', x.attname,
            'privilege', x.privilege_type, 'grantable', x.is_grantable and x.grantee <> k.owner)
            order by x.attname nulls first, g.rolname nulls first, x.privilege_type)
        from (
            select null::text as attname, z.* from pg_catalog.aclexplode(k.effective) z
            union all
            select a.attname, z.*
            from pg_catalog.pg_attribute a, pg_catalog.aclexplode(a.attacl) z
            where k.class = 'pg_class'::pg_catalog.regclass and a.attrelid = k.oid
                and a.attacl is not null and not a.attisdropped
        ) x
        left join pg_catalog.pg_roles g on g.oid = x.grantee), '[]') as grants
from known k
join pg_catalog.pg_class r on r.oid = k.class
where %(every)s or not (k.given or k.member)
    or k.acl is not null and k.acl <> coalesce(k.initprivs, '{}')
order by 1, 2
