-- The columns that the triggers of a queue on a table leave out of its events, by ignore=.
-- Blanks separate names as commas do, and a name may have some.
-- Parameters: queue, table (schema.name, unquoted).
with ignored (names) as (
    select (pg_catalog.regexp_match(a.args, '\\000ignore=([^\\]*)'))[1]
    from pg_catalog.pg_trigger as g
        cross join lateral (select pg_catalog.encode(g.tgargs, 'escape') as args) as a
    where g.tgrelid = londiste.find_table_oid(%(table)s)
        and g.tgconstrindid = 0
        and pg_catalog.starts_with(a.args, %(queue)s)
        and a.args ~ '\\000ignore='
    limit 1
)
select c.attname::pg_catalog.text
from ignored as i
    join pg_catalog.pg_attribute as c
        on c.attrelid = londiste.find_table_oid(%(table)s) and c.attnum > 0 and not c.attisdropped
where c.attname::pg_catalog.text = any (
        pg_catalog.regexp_split_to_array(i.names, '\s*,\s*')
        || pg_catalog.regexp_split_to_array(i.names, '[\s,]+'))
order by c.attnum
