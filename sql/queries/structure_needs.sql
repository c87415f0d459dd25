/*
 * Functions that objects of tables call and PostgreSQL does not bring, and collations that they and
 * columns use.
 *
 * %(oids)s -- the tables.
 * part -- defaults, checks, indexes, triggers, rules, policies or statistics; columns of a collation.
 * signature -- as to_regprocedure reads it, or the quoted collation; extension -- that the function
 *     belongs to.  kind -- function or collation.
 */
with objects as (
    select 'pg_catalog.pg_attrdef'::pg_catalog.regclass as classid, d.oid, d.adrelid as of_table,
        'defaults' as part, a.attname::text as object
    from pg_catalog.pg_attrdef d
    join pg_catalog.pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
    where d.adrelid = any(%(oids)s::oid[])
    union all
    select 'pg_catalog.pg_constraint'::pg_catalog.regclass, k.oid, k.conrelid,
        case k.contype when 'c' then 'checks' else 'unique' end, k.conname::text
    from pg_catalog.pg_constraint k
    where k.conrelid = any(%(oids)s::oid[])
    union all
    select 'pg_catalog.pg_class'::pg_catalog.regclass, i.indexrelid, i.indrelid, 'indexes',
        c.relname::text
    from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid
    where i.indrelid = any(%(oids)s::oid[])
    union all
    select 'pg_catalog.pg_trigger'::pg_catalog.regclass, t.oid, t.tgrelid, 'triggers',
        t.tgname::text
    from pg_catalog.pg_trigger t
    where t.tgrelid = any(%(oids)s::oid[]) and t.tgconstrindid = 0
    union all
    select 'pg_catalog.pg_rewrite'::pg_catalog.regclass, r.oid, r.ev_class, 'rules',
        r.rulename::text
    from pg_catalog.pg_rewrite r
    where r.ev_class = any(%(oids)s::oid[])
    union all
    select 'pg_catalog.pg_policy'::pg_catalog.regclass, p.oid, p.polrelid, 'policies',
        p.polname::text
    from pg_catalog.pg_policy p
    where p.polrelid = any(%(oids)s::oid[])
    union all
    select 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass, s.oid, s.stxrelid, 'statistics',
        s.stxname::text
    from pg_catalog.pg_statistic_ext s
    where s.stxrelid = any(%(oids)s::oid[])
)
select distinct
    o.of_table::int8 as oid,
    o.part,
    o.object,
    f.oid::pg_catalog.regprocedure::text as signature,
    x.extname::text as extension,
    'function' as kind
from objects o
join pg_catalog.pg_depend d
    on d.classid = o.classid and d.objid = o.oid
        and d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass
join pg_catalog.pg_proc f on f.oid = d.refobjid
join pg_catalog.pg_namespace n on n.oid = f.pronamespace
left join pg_catalog.pg_depend dx
    on dx.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass and dx.objid = f.oid
        and dx.deptype = 'e' and dx.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
left join pg_catalog.pg_extension x on x.oid = dx.refobjid
where n.nspname not in ('pg_catalog', 'pgq', 'londiste', 'londiste_capture')
union
-- PostgreSQL records no use of those that every database has: default, C and POSIX.
select
    o.of_table::int8,
    o.part,
    o.object,
    pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.collname),
    null,
    'collation'
from (
    select b.classid, b.oid, null::int4 as place, b.of_table, b.part, b.object from objects b
    union all
    select 'pg_catalog.pg_class'::pg_catalog.regclass, a.attrelid, a.attnum, a.attrelid, 'columns',
        a.attname::text
    from pg_catalog.pg_attribute a
    where a.attrelid = any(%(oids)s::oid[]) and a.attnum > 0 and not a.attisdropped
) o
join pg_catalog.pg_depend d
    on d.classid = o.classid and d.objid = o.oid and d.objsubid = coalesce(o.place, d.objsubid)
        and d.refclassid = 'pg_catalog.pg_collation'::pg_catalog.regclass
join pg_catalog.pg_collation c on c.oid = d.refobjid
join pg_catalog.pg_namespace n on n.oid = c.collnamespace
union
-- Of an operator class of an extension one function stands for it.
select distinct
    i.indrelid::int8,
    'indexes',
    c.relname::text,
    (select min(p.amproc::pg_catalog.regprocedure::text) from pg_catalog.pg_amproc p
     join pg_catalog.pg_depend d
        on d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass and d.objid = p.amproc
            and d.refobjid = x.oid and d.deptype = 'e'
     where p.amprocfamily = k.opcfamily),
    x.extname::text,
    'function'
from pg_catalog.pg_index i
join pg_catalog.pg_class c on c.oid = i.indexrelid
join pg_catalog.pg_opclass k on k.oid = any(i.indclass::oid[])
join pg_catalog.pg_depend e
    on e.classid = 'pg_catalog.pg_opclass'::pg_catalog.regclass and e.objid = k.oid
        and e.deptype = 'e' and e.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
join pg_catalog.pg_extension x on x.oid = e.refobjid
where i.indrelid = any(%(oids)s::oid[])
    and exists (
        select from pg_catalog.pg_amproc p
        join pg_catalog.pg_depend d
            on d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass and d.objid = p.amproc
                and d.refobjid = x.oid and d.deptype = 'e'
        where p.amprocfamily = k.opcfamily)
order by 1, 2, 3, 6, 4
