-- What the triggers of a queue on a table leave out of its events: the names of ignore=.
-- Parameters: queue, table (schema.name, unquoted).
select (pg_catalog.regexp_match(a.args, '\\000ignore=([^\\]*)'))[1]
from pg_catalog.pg_trigger as g
    cross join lateral (select pg_catalog.encode(g.tgargs, 'escape') as args) as a
where g.tgrelid = londiste.find_table_oid(%(table)s)
    and not g.tgisinternal
    and pg_catalog.starts_with(a.args, %(queue)s)
    and a.args ~ '\\000ignore='
limit 1
