/*
 * What a database has besides tables and what belongs to them, outside of the schemas of the system
 * and of replication and of extensions; with the statement that makes it where the server can tell.
 *
 * %(definitions)s -- false: without those statements, which wait for the tables of a view.
 * kind; schema, name -- null and the name for what is in no schema; signature -- as it is written
 * behind the kind; definition -- null: nobody but pg_dump knows how to make it; sequence of making.
 */
with recursive ours (name) as (
    values ('information_schema'), ('pgq'), ('pgq_ext'), ('pgq_coop'), ('pgq_node'), ('londiste'),
        ('londiste_capture'), ('londiste_apply')
), spaces as (
    select n.oid, n.nspname::text as name, n.nspowner, n.nspacl
    from pg_catalog.pg_namespace n
    where n.nspname !~ '^pg_' and n.nspname not in (select o.name from ours o)
        and not exists (
            select from pg_catalog.pg_depend d
            where d.classid = 'pg_catalog.pg_namespace'::pg_catalog.regclass and d.objid = n.oid
                and d.deptype = 'e')
), members as (
    select d.classid, d.objid from pg_catalog.pg_depend d where d.deptype = 'e'
)
select 0 as place, 'schema' as kind, null::text as schema, s.name,
    pg_catalog.quote_ident(s.name) as signature,
    'create schema ' || pg_catalog.quote_ident(s.name) as definition
from spaces s
where s.name <> 'public'
union all
select 1, 'extension', null, x.extname::text, pg_catalog.quote_ident(x.extname),
    pg_catalog.format('create extension %%I with schema %%I', x.extname, n.nspname)
from pg_catalog.pg_extension x join pg_catalog.pg_namespace n on n.oid = x.extnamespace
where x.extname <> 'plpgsql' and x.extname not like 'pgq%%'
union all
select 2, case p.prokind when 'p' then 'procedure' when 'a' then 'aggregate' else 'function' end,
    s.name, p.proname::text,
    pg_catalog.format('%%I.%%I(%%s)', s.name, p.proname,
        pg_catalog.pg_get_function_identity_arguments(p.oid)),
    case when %(definitions)s and p.prokind <> 'a' and l.lanname not in ('c', 'internal')
        then pg_catalog.pg_get_functiondef(p.oid) end
from pg_catalog.pg_proc p
join spaces s on s.oid = p.pronamespace
join pg_catalog.pg_language l on l.oid = p.prolang
where (p.tableoid, p.oid) not in (select * from members)
    -- Of a range type, made with it.
    and not exists (
        select from pg_catalog.pg_depend d
        where d.classid = p.tableoid and d.objid = p.oid and d.deptype = 'i')
union all
select 3, 'sequence', s.name, c.relname::text, pg_catalog.format('%%I.%%I', s.name, c.relname),
    pg_catalog.format(
        'create sequence %%I.%%I as %%s start with %%s increment by %%s minvalue %%s maxvalue %%s'
        ' cache %%s %%s', s.name, c.relname, pg_catalog.format_type(q.seqtypid, null),
        q.seqstart, q.seqincrement, q.seqmin, q.seqmax, q.seqcache,
        case when q.seqcycle then 'cycle' else 'no cycle' end)
from pg_catalog.pg_class c
join spaces s on s.oid = c.relnamespace
join pg_catalog.pg_sequence q on q.seqrelid = c.oid
-- An unlogged one becomes logged: not every release has unlogged ones.
where c.relkind = 'S' and c.relpersistence <> 't'
    and (c.tableoid, c.oid) not in (select * from members)
    and not exists (
        select from pg_catalog.pg_depend d
        where d.classid = c.tableoid and d.objid = c.oid and d.deptype in ('a', 'i'))
union all
select 4, case c.relkind when 'v' then 'view' else 'materialized view' end, s.name,
    c.relname::text, pg_catalog.format('%%I.%%I', s.name, c.relname),
    case when %(definitions)s then pg_catalog.format('create %%s %%I.%%I%%s as %%s%%s',
        case c.relkind when 'v' then 'view' else 'materialized view' end, s.name, c.relname,
        (select ' with (' || pg_catalog.string_agg(o, ', ') || ')'
         from pg_catalog.unnest(c.reloptions) o),
        pg_catalog.rtrim(pg_catalog.pg_get_viewdef(c.oid), ';'),
        case c.relkind when 'm' then ' with no data' else '' end) end
from pg_catalog.pg_class c
join spaces s on s.oid = c.relnamespace
where c.relkind in ('v', 'm') and (c.tableoid, c.oid) not in (select * from members)
union all
select 5, 'index of a materialized view', s.name, i.relname::text,
    pg_catalog.format('%%I.%%I', s.name, i.relname),
    case when %(definitions)s then pg_catalog.pg_get_indexdef(i.oid) end
from pg_catalog.pg_index x
join pg_catalog.pg_class c on c.oid = x.indrelid and c.relkind = 'm'
join pg_catalog.pg_class i on i.oid = x.indexrelid
join spaces s on s.oid = i.relnamespace
where (c.tableoid, c.oid) not in (select * from members)
union all
select 5, 'default of a view', s.name, c.relname::text,
    pg_catalog.format('%%I.%%I, column %%I', s.name, c.relname, a.attname),
    case when %(definitions)s then pg_catalog.format(
        'alter view %%I.%%I alter column %%I set default %%s', s.name, c.relname,
        a.attname, pg_catalog.pg_get_expr(d.adbin, d.adrelid)) end
from pg_catalog.pg_attrdef d
join pg_catalog.pg_class c on c.oid = d.adrelid and c.relkind = 'v'
join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = d.adnum
join spaces s on s.oid = c.relnamespace
where (c.tableoid, c.oid) not in (select * from members)
union all
select 5, 'trigger of a view', s.name, t.tgname::text,
    pg_catalog.format('%%I on %%I.%%I', t.tgname, s.name, c.relname),
    case when %(definitions)s then pg_catalog.pg_get_triggerdef(t.oid) end
from pg_catalog.pg_trigger t
join pg_catalog.pg_class c on c.oid = t.tgrelid and c.relkind = 'v'
join spaces s on s.oid = c.relnamespace
where t.tgconstrindid = 0
union all
-- Rules of tables are made with them.
select 5, 'rule of a view', s.name, r.rulename::text,
    pg_catalog.format('%%I on %%I.%%I', r.rulename, s.name, c.relname),
    case when %(definitions)s then pg_catalog.pg_get_ruledef(r.oid) end
from pg_catalog.pg_rewrite r
join pg_catalog.pg_class c on c.oid = r.ev_class and c.relkind = 'v'
join spaces s on s.oid = c.relnamespace
where r.rulename <> '_RETURN'
union all
select 9, 'operator', s.name, o.oprname::text, o.oid::pg_catalog.regoperator::text, null
from pg_catalog.pg_operator o join spaces s on s.oid = o.oprnamespace
where (o.tableoid, o.oid) not in (select * from members)
union all
select 9, 'cast', null, null,
    pg_catalog.format('(%%s as %%s)', pg_catalog.format_type(k.castsource, null),
        pg_catalog.format_type(k.casttarget, null)), null
from pg_catalog.pg_cast k
where k.oid >= 16384 and (k.tableoid, k.oid) not in (select * from members)
    -- Of a range type, made with it.
    and not exists (
        select from pg_catalog.pg_depend d
        where d.classid = k.tableoid and d.objid = k.oid and d.deptype = 'i')
union all
select 9, 'collation', s.name, c.collname::text, pg_catalog.format('%%I.%%I', s.name, c.collname), null
from pg_catalog.pg_collation c join spaces s on s.oid = c.collnamespace
where (c.tableoid, c.oid) not in (select * from members)
union all
select 9, 'text search configuration', s.name, c.cfgname::text,
    pg_catalog.format('%%I.%%I', s.name, c.cfgname), null
from pg_catalog.pg_ts_config c join spaces s on s.oid = c.cfgnamespace
where (c.tableoid, c.oid) not in (select * from members)
union all
select 9, 'text search dictionary', s.name, c.dictname::text,
    pg_catalog.format('%%I.%%I', s.name, c.dictname), null
from pg_catalog.pg_ts_dict c join spaces s on s.oid = c.dictnamespace
where (c.tableoid, c.oid) not in (select * from members)
union all
select 9, 'operator class', s.name, c.opcname::text,
    pg_catalog.format('%%I.%%I', s.name, c.opcname), null
from pg_catalog.pg_opclass c join spaces s on s.oid = c.opcnamespace
where (c.tableoid, c.oid) not in (select * from members)
union all
select 9, 'foreign table', s.name, c.relname::text,
    pg_catalog.format('%%I.%%I', s.name, c.relname), null
from pg_catalog.pg_class c join spaces s on s.oid = c.relnamespace
where c.relkind = 'f' and (c.tableoid, c.oid) not in (select * from members)
union all
select 9, 'foreign server', null, f.srvname::text, pg_catalog.quote_ident(f.srvname), null
from pg_catalog.pg_foreign_server f
where (f.tableoid, f.oid) not in (select * from members)
union all
select 9, 'event trigger', null, e.evtname::text, pg_catalog.quote_ident(e.evtname), null
from pg_catalog.pg_event_trigger e
where (e.tableoid, e.oid) not in (select * from members)
union all
-- Of no table: types that columns need are made with the tables.
select 9, 'type without a table', s.name, t.typname::text,
    pg_catalog.format('%%I.%%I', s.name, t.typname), null
from pg_catalog.pg_type t
join spaces s on s.oid = t.typnamespace
left join pg_catalog.pg_class c on c.oid = t.typrelid
where (t.typtype in ('e', 'd', 'r', 'b') or t.typtype = 'c' and c.relkind = 'c')
    and t.typcategory <> 'A'
    and (t.tableoid, t.oid) not in (select * from members)
    and not exists (
        select from pg_catalog.pg_attribute a
        join pg_catalog.pg_class r on r.oid = a.attrelid and r.relkind in ('r', 'p', 'c')
        where a.attnum > 0 and not a.attisdropped
            and a.atttypid in (t.oid, nullif(t.typarray, 0)))
order by 1, 2, 3, 4, 5
