-- What may surprise about replicated tables of this database: kind, table, detail.
-- %(queue)s the queue.
with kept as (
    select coalesce(t.dest_table, t.table_name) as name,
           londiste.find_table_oid(coalesce(t.dest_table, t.table_name)) as oid
    from londiste.table_info t
    where t.queue_name = %(queue)s and t.local
)
select 'missing' as kind, k.name as table_name, '' as detail
from kept k
where k.oid is null
    -- Renamed: its captures say so.
    and not exists (
        select from londiste.renamed_tables(%(queue)s) r
        join londiste.table_info t on t.queue_name = %(queue)s and t.table_name = r.table_name
        where coalesce(t.dest_table, t.table_name) = k.name)
    and not exists (select from londiste.table_info t
                    where t.queue_name = %(queue)s and t.local
                        and coalesce(t.dest_table, t.table_name) = k.name
                        and t.table_attrs like '%%handler=%%')
union all
select 'rewritten', r.table_name, pg_catalog.to_char(r.since, 'YYYY-MM-DD HH24:MI')
from londiste.rewritten_tables(%(queue)s) r
union all
select 'table-replaced', r.table_name, pg_catalog.to_char(r.since, 'YYYY-MM-DD HH24:MI')
from londiste.replaced_tables(%(queue)s) r
union all
select 'partition-detached', r.table_name, r.partition
from londiste.detached_partitions(%(queue)s) r
union all
select 'unlogged', k.name, ''
from kept k
join pg_catalog.pg_class c on c.oid = k.oid and c.relpersistence <> 'p'
union all
select 'large-objects', k.name, a.attname::text
from kept k
join pg_catalog.pg_attribute a on a.attrelid = k.oid and a.attnum > 0 and not a.attisdropped
join pg_catalog.pg_type y on y.oid = a.atttypid
where y.typname = 'lo' or a.atttypid = 'pg_catalog.oid'::regtype
union all
select 'referenced', k.name, n.nspname || '.' || c.relname
from kept k
join pg_catalog.pg_constraint f on f.confrelid = k.oid and f.contype = 'f' and f.conparentid = 0
join pg_catalog.pg_class c on c.oid = f.conrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where not exists (select from kept o where o.oid = f.conrelid)
union all
-- Triggers of somebody that fire for what the worker writes and for the application alike.
select 'always', n.nspname || '.' || c.relname, g.tgname::text
from kept k
join pg_catalog.pg_trigger g
    on (g.tgrelid = k.oid or g.tgrelid in (select r.relid from londiste._partition_tree(k.oid) r))
    and g.tgenabled = 'A' and g.tgconstrindid = 0 and g.tgparentid = 0
join pg_catalog.pg_class c on c.oid = g.tgrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_proc p on p.oid = g.tgfoid
where p.pronamespace not in (select o.oid from pg_catalog.pg_namespace o
                             where o.nspname in ('londiste', 'londiste_capture', 'pgq'))
union all
-- Rules that apply to what the worker writes.
select 'rule', n.nspname || '.' || c.relname, w.rulename::text || e'\n' || w.ev_enabled::text
from kept k
join pg_catalog.pg_rewrite w
    on (w.ev_class = k.oid or w.ev_class in (select r.relid from londiste._partition_tree(k.oid) r))
    and w.ev_enabled in ('A', 'R')
join pg_catalog.pg_class c on c.oid = w.ev_class
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
order by 1, 2, 3
