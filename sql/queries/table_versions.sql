-- A text per table that changes when a column is added, dropped, renamed or gets another type, or
-- the table gets another name, schema, owner or anything else that decides how it is written.
-- The xmin of pg_class is no such text: a TRUNCATE changes it, and rows of the same batch follow.
-- Parameter %(oids)s: array of table oids.  A table that is gone is not in the result.
-- Without a join of the two: it is planned for each batch, because the replica role ends the plans.
select
    c.oid::int8 as oid,
    pg_catalog.concat_ws(' ', c.relname, c.relnamespace::pg_catalog.regnamespace, c.relowner,
        c.relkind, c.relpersistence, c.relchecks, c.relhasrules, c.relhastriggers, c.relrowsecurity, c.relforcerowsecurity,
        c.relispartition)
    || ' ' || (
        select pg_catalog.string_agg(a.xmin::text, ' ' order by a.attnum)
        from pg_catalog.pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0
    ) as version
from pg_catalog.pg_class c
where c.oid = any(%(oids)s::int8[]::oid[])
