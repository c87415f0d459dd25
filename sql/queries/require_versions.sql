-- Fails with 22P02 unless each of some tables is as it was.
-- Parameters: %(oids)s; %(versions)s, what table_versions has, in the order of the oids.
-- Without a join: it is planned for each batch, because the replica role ends the plans.
select (case
    pg_catalog.string_agg(
        pg_catalog.concat_ws(' ', c.relname, c.relnamespace::pg_catalog.regnamespace, c.relowner,
            c.relkind, c.relpersistence, c.relchecks, c.relhasrules, c.relhastriggers, c.relrowsecurity, c.relforcerowsecurity,
            c.relispartition)
        || ' ' || (
            select pg_catalog.string_agg(a.xmin::text, ' ' order by a.attnum)
            from pg_catalog.pg_attribute a
            where a.attrelid = c.oid and a.attnum > 0
        ), ',' order by c.oid)
    when %(versions)s::text then 't' else 'a table has changed' end)::bool
from pg_catalog.pg_class c
where c.oid = any(%(oids)s::int8[]::oid[])
