-- Compatible triggers that were made before they were told the name of a partitioned table: kind, table,
-- function.  Waits for no lock of a table or partition.
-- %(queue)s the queue.
select 'partition-names' as kind, k.name as table_name, p.proname::text as detail
from (
    select coalesce(t.dest_table, t.table_name) as name,
           londiste.find_table_oid(coalesce(t.dest_table, t.table_name)) as oid
    from londiste.table_info t
    where t.queue_name = %(queue)s and t.local) k
join pg_catalog.pg_class c on c.oid = k.oid and c.relkind = 'p'
join pg_catalog.pg_trigger g
    on g.tgrelid = k.oid and g.tgconstrindid = 0 and g.tgtype::int4 & 1 = 1
    and position('\x00'::bytea || 'ev_extra1='::bytea in g.tgargs) = 0
    and position('\x00'::bytea || 'deny'::bytea || '\x00'::bytea in g.tgargs) = 0
    and position('\x00'::bytea in g.tgargs) > 0
    and substr(g.tgargs, 1, position('\x00'::bytea in g.tgargs) - 1)
        = convert_to(%(queue)s, getdatabaseencoding())
join pg_catalog.pg_proc p on p.oid = g.tgfoid
where p.pronamespace = (select n.oid from pg_catalog.pg_namespace n where n.nspname = 'pgq')
    and p.proname in ('logutriga', 'jsontriga', 'sqltriga')
order by 1, 2, 3
