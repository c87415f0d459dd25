/*
 * Sequences that columns of tables take values from.
 *
 * %(oids)s -- the tables.
 * owned -- a: dropped with the column (serial); i: identity; '': the default only names it.
 * owner -- its role; literal -- the sequence as the text of a default has it.
 */
select distinct
    a.attrelid::int8 as oid,
    a.attname::text as "column",
    n.nspname::text as schema,
    c.relname::text as name,
    coalesce(w.deptype::text, '') as owned,
    pg_catalog.pg_get_userbyid(c.relowner)::text as owner,
    c.relpersistence = 'u' as unlogged,
    pg_catalog.format_type(s.seqtypid, null) as type,
    s.seqstart as start,
    s.seqincrement as increment,
    s.seqmin as minimum,
    s.seqmax as maximum,
    s.seqcache as cache,
    s.seqcycle as cycle,
    pg_catalog.quote_literal(pg_catalog.quote_ident(n.nspname) || '.'
        || pg_catalog.quote_ident(c.relname)) as literal,
    pg_catalog.obj_description(c.oid, 'pg_class') as comment
from pg_catalog.pg_attribute a
left join pg_catalog.pg_attrdef e on e.adrelid = a.attrelid and e.adnum = a.attnum
join pg_catalog.pg_depend d
    on d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass and d.objid = e.oid
        and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
    or d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.refobjid = a.attrelid
        and d.refobjsubid = a.attnum and d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
        and d.deptype in ('a', 'i')
join pg_catalog.pg_class c
    on c.oid = case when d.refobjid = a.attrelid then d.objid else d.refobjid end
        and c.relkind = 'S'
join pg_catalog.pg_sequence s on s.seqrelid = c.oid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
left join pg_catalog.pg_depend w
    on w.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and w.objid = c.oid
        and w.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
        and w.refobjid = a.attrelid and w.refobjsubid = a.attnum and w.deptype in ('a', 'i')
where a.attrelid = any(%(oids)s::oid[])
    and a.attnum > 0
    and not a.attisdropped
order by 1, 2, 4, 5
