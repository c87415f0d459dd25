-- Keys, unique constraints and indexes, and exclusion constraints of some tables.
-- Parameters: %(tables)s, array of "schema.name", unquoted (only the first dot splits); %(queue)s.
-- Partial indexes and those of expressions are left out.
--   exclusion   it compares with other operators than equality
--   deferrable  a trigger checks it, which does not fire for the replica role
--   immediate   statement that makes it not deferrable; NULL: it is not, or no constraint
--   shared      other queues fill the table, too; those that merge into %(queue)s are its own parts
select
    t.name as table_name,
    coalesce(k.conname, x.relname)::text as name,
    i.indisexclusion as exclusion,
    not i.indimmediate as deferrable,
    (
        select pg_catalog.array_agg(a.attname::text order by a.attname)
        from pg_catalog.pg_attribute a
        where a.attrelid = c.oid and a.attnum = any((i.indkey::int2[])[0:i.indnkeyatts - 1])
    ) as columns,
    (
        -- A partition cannot drop what it inherits.
        with recursive above (oid, parent) as (
            select k.oid, k.conparentid
            union all
            select p.oid, p.conparentid
            from above as a
            join pg_catalog.pg_constraint as p on p.oid = a.parent
        )
        select pg_catalog.format(
            'alter table %%I.%%I drop constraint %%I, add constraint %%I %%s',
            rn.nspname, r.relname, o.conname, o.conname,
            pg_catalog.regexp_replace(
                pg_catalog.pg_get_constraintdef(o.oid), ' DEFERRABLE( INITIALLY DEFERRED)?$', ''))
        from above as a
        join pg_catalog.pg_constraint as o on o.oid = a.oid and o.condeferrable
        join pg_catalog.pg_class as r on r.oid = o.conrelid
        join pg_catalog.pg_namespace as rn on rn.oid = r.relnamespace
        where a.parent = 0
    ) as immediate,
    exists (
        select from londiste.table_info f
        join pgq_node.node_info o on o.queue_name = f.queue_name
        where f.local
            and coalesce(f.dest_table, f.table_name) = t.name
            and f.queue_name <> %(queue)s
            and o.node_type = 'leaf'
            and o.combined_queue is distinct from %(queue)s
    ) as shared
from unnest(%(tables)s::text[]) as t (name)
join pg_catalog.pg_namespace n on n.nspname = split_part(t.name, '.', 1)
join pg_catalog.pg_class c
    on c.relnamespace = n.oid and c.relname = substr(t.name, strpos(t.name, '.') + 1)
join pg_catalog.pg_index i
    on i.indrelid = c.oid
    and (i.indisunique or i.indisexclusion)
    and i.indisvalid
    and i.indpred is null
    and 0 <> all(i.indkey::int2[])
join pg_catalog.pg_class x on x.oid = i.indexrelid
left join pg_catalog.pg_constraint k
    on k.conindid = i.indexrelid and k.conrelid = c.oid and k.contype in ('p', 'u', 'x')
order by 1, 2
