/*
 * Tables by name, and the partitions below them.
 *
 * %(names)s -- [[schema, name], ...] as json.
 * The row of a table that is not there is missing.
 */
with named as (
    select n.place, c.oid
    from pg_catalog.jsonb_array_elements(%(names)s::jsonb) with ordinality as n (pair, place)
    join pg_catalog.pg_namespace s on s.nspname = n.pair ->> 0
    join pg_catalog.pg_class c
        on c.relnamespace = s.oid and c.relname = n.pair ->> 1 and c.relkind in ('r', 'p')
)
select distinct t.oid::int8 as oid
from (
    select n.oid from named n
    union all
    select p.relid
    from named n
    cross join lateral pg_catalog.pg_partition_tree(n.oid) p
    join pg_catalog.pg_class c on c.oid = p.relid and c.relkind in ('r', 'p')
) t
order by 1
