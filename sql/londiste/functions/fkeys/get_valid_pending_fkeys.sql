create or replace function londiste.get_valid_pending_fkeys(i_queue_name text)
returns setof londiste.pending_fkeys
language sql
stable
strict
set search_path = pg_catalog, pg_temp
as $$
    /*
     * Returns the foreign keys that the worker of this queue can restore now.
     *
     * Both tables are replicated on this node.  In every queue that fills them their state is ok, and no
     * copy snapshot is left.  If several queues qualify, one of them restores the key: a root before
     * a branch into which others merge, before the lowest name.
     */
    select f.*
    from londiste.pending_fkeys f,
        lateral (
            select count(*) filter (where dest = f.from_table) as from_count,
                   count(*) filter (where dest = f.to_table) as to_count,
                   bool_and(merge_state is not distinct from 'ok'
                            and custom_snapshot is null) as all_ok,
                   (array_agg(queue_name order by
                        case when node_type = 'root' then 1
                             when merged_into then 2
                             else 3 end,
                        queue_name))[1] as chosen
            from (
                select t.queue_name, n.node_type, t.merge_state, t.custom_snapshot,
                       coalesce(t.dest_table, t.table_name) as dest,
                       exists (select from pgq_node.node_info p
                               where p.combined_queue = t.queue_name) as merged_into
                from londiste.table_info t join pgq_node.node_info n using (queue_name)
                where t.local
                    and coalesce(t.dest_table, t.table_name) in (f.from_table, f.to_table)
            ) r
        ) x
    where x.from_count > 0
        and x.to_count > 0
        and x.all_ok
        and x.chosen = i_queue_name
    order by f.from_table, f.fkey_name;
$$;
