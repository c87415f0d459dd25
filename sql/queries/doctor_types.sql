-- Types of columns of the user's tables that --create-full or an administrator must create: enums
-- with their labels, and types that C functions implement and no extension owns.
select distinct
    n.nspname::text as schema,
    t.typname::text as name,
    pg_catalog.format_type(t.oid, null) as text,
    case when t.typtype = 'e' then array(
        select e.enumlabel::text from pg_catalog.pg_enum e
        where e.enumtypid = t.oid order by e.enumsortorder) end as labels
from pg_catalog.pg_attribute a
join pg_catalog.pg_class c on c.oid = a.attrelid and c.relkind in ('r', 'p')
join pg_catalog.pg_namespace s on s.oid = c.relnamespace and s.nspname !~ '^pg_'
    and s.nspname not in
        ('information_schema', 'pgq', 'pgq_ext', 'pgq_coop', 'pgq_node', 'londiste',
         'londiste_capture', 'londiste_apply')
join pg_catalog.pg_type y on y.oid = a.atttypid
join pg_catalog.pg_type t on t.oid = case when y.typcategory = 'A' and y.typelem <> 0
    then y.typelem else y.oid end
join pg_catalog.pg_namespace n on n.oid = t.typnamespace
where a.attnum > 0 and not a.attisdropped and t.typtype in ('e', 'b') and t.typcategory <> 'A'
    and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
    and not exists (
        select from pg_catalog.pg_depend d
        where d.classid = t.tableoid and d.objid = t.oid and d.deptype = 'e')
order by 1, 2
