/*
 * The sequences of a table's columns (serial and identity), and the last value of each; NULL for a
 * value of a sequence that was never used or may not be read.
 *
 * %(schema)s, %(name)s -- the table.
 */
select
    a.attname::text as column,
    n.nspname::text as schema,
    c.relname::text as name,
    c.oid::int8 as oid,
    s.seqincrement as increment,
    pg_catalog.pg_sequence_last_value(c.oid) as last_value
from pg_catalog.pg_class t
join pg_catalog.pg_namespace tn on tn.oid = t.relnamespace
join pg_catalog.pg_depend d
    on d.refclassid = 'pg_catalog.pg_class'::regclass
    and d.refobjid = t.oid
    and d.refobjsubid > 0
    and d.classid = 'pg_catalog.pg_class'::regclass
    and d.deptype in ('a', 'i')
join pg_catalog.pg_class c on c.oid = d.objid and c.relkind = 'S'
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_sequence s on s.seqrelid = c.oid
join pg_catalog.pg_attribute a on a.attrelid = t.oid and a.attnum = d.refobjsubid
where tn.nspname = %(schema)s
    and t.relname = %(name)s
    -- The planner asks in any order; the function fails for what is no sequence.
    and case c.relkind when 'S' then pg_catalog.has_sequence_privilege(c.oid, 'select') end
order by a.attnum
