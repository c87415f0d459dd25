create or replace function londiste.detached_partitions(
    i_queue_name text,
    out table_name text,
    out partition text)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns partitions that were detached from tables of a subscriber: their rows are missing in it.
 *
 * One that is attached again or dropped is not returned.  For one that the root has detached, too,
 * call accept_rewrite().  Scripts of londiste execute run on all nodes and are not listed.  Those of
 * the root are in partition_changes().
 */
select d.table_name, n.nspname || '.' || c.relname
from londiste._detached(i_queue_name) d
    join pg_class c on c.oid = d.relid
    join pg_namespace n on n.oid = c.relnamespace
where not exists (
    select from pgq_node.node_info o
    where o.queue_name = d.queue_name and o.node_type = 'root');
$$;
