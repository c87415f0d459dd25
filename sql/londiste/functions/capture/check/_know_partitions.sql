create or replace function londiste._know_partitions(i_queue_name text, i_relid oid)
returns int4
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Accepts the partitions of a captured table as they are now, in the transaction of its capture.
 *
 * Returns 1.  From now on _watch_partitions() records what changes their rows without an event.
 */
delete from londiste.capture_partition as k
using pg_class as c
    join pg_namespace as n on n.oid = c.relnamespace
where c.oid = i_relid
    and k.queue_name = i_queue_name
    and k.table_name = format('%s.%s', n.nspname, c.relname)
    and k.wrong is null;

insert into londiste.capture_partition (queue_name, table_name, relid, partition, place, rows, looked)
select i_queue_name, format('%s.%s', n.nspname, c.relname), p.oid, p.oid::regclass::text, p.place,
    least(1, pg_relation_size(p.oid)),
    case p.oid when i_relid then txid_snapshot_xmin(txid_current_snapshot()) end
from pg_class as c
    join pg_namespace as n on n.oid = c.relnamespace
    cross join lateral londiste._partition_places(c.oid) as p
where c.oid = i_relid
    and c.relkind = 'p'
on conflict (queue_name, table_name, relid) do update
set place = excluded.place, rows = excluded.rows, looked = excluded.looked
returning 1;
$$;
