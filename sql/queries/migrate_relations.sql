-- Those of the tables %(names)s, [[schema, name], ...] as json, that are in this database.
select n.nspname::text as schema, c.relname::text as name
from pg_catalog.jsonb_array_elements(%(names)s::jsonb) w
join pg_catalog.pg_namespace n on n.nspname = w ->> 0
join pg_catalog.pg_class c
    on c.relnamespace = n.oid and c.relname = w ->> 1 and c.relkind in ('r', 'p')
order by 1, 2
