create or replace function londiste._detached(
    i_queue_name text,
    out queue_name text,
    out table_name text,
    out relid oid)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns partitions that were detached from tables in sync, and still exist.
 *
 * i_queue_name -- NULL: all queues.
 *
 * Another table of the name is reported separately (_replaced).
 */
select v.queue_name, v.table_name, c.oid
from londiste.table_version v
    join londiste.table_info t using (queue_name, table_name)
    cross join lateral (
        select p.relid from unnest(v.partitions) as p (relid)
        except
        select n.relid::oid from londiste._partition_tree(v.relid) as n) as p
    join pg_class c on c.oid = p.relid and c.relkind in ('r', 'p', 'f')
where v.queue_name = coalesce(i_queue_name, v.queue_name)
    and t.local
    and t.merge_state = 'ok'
    and v.home = 'londiste.table_info'::regclass
    and v.relid = londiste.find_table_oid(coalesce(t.dest_table, t.table_name))
order by t.nr, c.oid;
$$;
