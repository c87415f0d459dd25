-- A text per table that changes when a column is added, dropped, renamed or gets another type.
-- Parameter: array of table oids.  A table that is gone is not in the result.
select
    a.attrelid::int8 as oid,
    c.xmin::text || ' ' || pg_catalog.string_agg(a.xmin::text, ' ' order by a.attnum) as version
from pg_catalog.pg_attribute a
join pg_catalog.pg_class c on c.oid = a.attrelid
where a.attrelid = any(%s::int8[]::oid[]) and a.attnum > 0
group by a.attrelid, c.xmin::text
