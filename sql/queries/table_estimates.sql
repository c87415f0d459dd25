/*
 * Rows and size of several tables as the catalog estimates them: no lock, no file is read.
 *
 * %(schemas)s, %(names)s -- arrays, unquoted; tables that are not there are not in the result.
 * Partitions are added up. bytes: table, TOAST table and indexes at the last VACUUM or ANALYZE.
 */
with recursive wanted as (
    select w.schema, w.name, c.oid
    from unnest(%(schemas)s::text[], %(names)s::text[]) as w (schema, name)
    join pg_catalog.pg_namespace n on n.nspname = w.schema
    join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = w.name
),
tree as (
    select w.schema, w.name, w.oid as relation from wanted w
    union all
    select t.schema, t.name, i.inhrelid
    from tree t
    join pg_catalog.pg_inherits i on i.inhparent = t.relation
    join pg_catalog.pg_class p on p.oid = i.inhparent and p.relkind = 'p'
)
select
    t.schema,
    t.name,
    sum(greatest(c.reltuples, 0) * (c.relkind <> 'p')::int)::int8 as rows,
    (
        sum(c.relpages::int8 + coalesce(x.relpages, 0) + coalesce(i.pages, 0))
        * current_setting('block_size')::int8
    )::int8 as bytes
from tree t
join pg_catalog.pg_class c on c.oid = t.relation
left join pg_catalog.pg_class x on x.oid = c.reltoastrelid
left join lateral (
    select sum(k.relpages)::int8 as pages
    from pg_catalog.pg_index d
    join pg_catalog.pg_class k on k.oid = d.indexrelid
    where d.indrelid = c.oid
) i on true
group by t.schema, t.name
