-- Tables that TRUNCATE ... CASCADE of some tables (schemas, names) reaches by foreign keys, and that it does
-- not name: schema, name.
with recursive named as (
    select c.oid
    from unnest(%(schemas)s::text[], %(names)s::text[]) as t (schema_name, table_name)
        join pg_catalog.pg_namespace as n on n.nspname = t.schema_name
        join pg_catalog.pg_class as c on c.relnamespace = n.oid and c.relname = t.table_name
),
emptied as (
    select oid from named
    union
    select k.conrelid
    from emptied as e
        join pg_catalog.pg_constraint as k on k.confrelid = e.oid and k.contype = 'f'
)
select n.nspname::text, c.relname::text
from emptied as e
    join pg_catalog.pg_class as c on c.oid = e.oid
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where e.oid not in (select oid from named) and not c.relispartition
order by 1, 2
