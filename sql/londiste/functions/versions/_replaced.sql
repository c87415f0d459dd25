create or replace function londiste._replaced(
    i_queue_name text,
    out queue_name text,
    out table_name text,
    out is_root boolean,
    out replaced_at timestamptz)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the tables in sync whose name another table has now, or has had.
 *
 * i_queue_name -- NULL: all queues.
 * replaced_at -- time at which maintenance found it; NULL: it has not.
 *
 * After a restore from a dump all oids are other ones, that of table_info, too: no table is returned.
 */
select v.queue_name, v.table_name,
    exists (
        select from pgq_node.node_info n
        where n.queue_name = v.queue_name and n.node_type = 'root'),
    v.replaced_at
from londiste.table_version v
    join londiste.table_info t using (queue_name, table_name)
where v.queue_name = coalesce(i_queue_name, v.queue_name)
    and t.local
    and t.merge_state = 'ok'
    and (v.replaced_at is not null
        or v.home = 'londiste.table_info'::regclass
            and v.relid <> londiste.find_table_oid(coalesce(t.dest_table, t.table_name)))
order by t.nr;
$$;
