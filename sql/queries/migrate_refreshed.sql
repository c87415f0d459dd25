-- Materialized views as they are written, those that others read, through views, too, first.
-- filled -- not left WITH NO DATA.
with recursive reads (reader, other) as (
    select r.ev_class, d.refobjid
    from pg_catalog.pg_rewrite r
    join pg_catalog.pg_depend d
        on d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass and d.objid = r.oid
        and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
        and d.refobjid <> r.ev_class
    join pg_catalog.pg_class c on c.oid = d.refobjid and c.relkind in ('v', 'm')
), depth (reader, n) as (
    select c.oid, 0 from pg_catalog.pg_class c where c.relkind in ('v', 'm')
    union
    -- Views that read each other would have no end.
    select r.reader, d.n + 1 from depth d join reads r on r.other = d.reader where d.n < 100
)
select pg_catalog.format('%I.%I', n.nspname, c.relname) as name, c.relispopulated as filled
from depth d
join pg_catalog.pg_class c on c.oid = d.reader and c.relkind = 'm'
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
group by 1, 2
order by pg_catalog.max(d.n), 1
