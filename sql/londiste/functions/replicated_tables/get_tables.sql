create or replace function londiste.get_tables(
    i_queue_name text,
    i_table_names text[],
    out table_name text,
    out local boolean,
    out merge_state text,
    out custom_snapshot text,
    out table_attrs text,
    out dropped_ddl text,
    out copy_role text,
    out copy_pos int4,
    out dest_table text)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    /*
     * Returns the rows of get_table_list() for some tables; NULL means all tables.
     *
     * On the root of a combined queue a table is ok when it is ok in every part.  The rows of a part's
     * copy are in no event, so no node may copy the table from here earlier.
     *
     * copy_role, copy_pos -- computed only where several registrations fill one table: each of them is
     *     compared with all others.
     */
    with shared as materialized (
        select coalesce(s.dest_table, s.table_name) as dest
        from londiste.table_info s
        where s.local
            and coalesce(s.merge_state, '') <> 'ok'
        group by 1
        having count(*) > 1
    )
    select t.table_name, t.local,
           case when t.merge_state = 'ok' and exists (
                    select from pgq_node.node_info n
                        join pgq_node.node_info p on p.combined_queue = n.queue_name
                        join londiste.table_info f on f.queue_name = p.queue_name
                    where n.queue_name = t.queue_name
                        and n.node_type = 'root'
                        and f.local
                        and f.merge_state is distinct from 'ok'
                        and coalesce(f.dest_table, f.table_name)
                            = coalesce(t.dest_table, t.table_name))
                then 'in-copy' else t.merge_state end,
           t.custom_snapshot, t.table_attrs,
           t.dropped_ddl, c.copy_role, coalesce(c.copy_pos, 0), t.dest_table
    from londiste.table_info t
        left join lateral (
            select p.copy_role, p.copy_pos
            from (
                    -- Its argument makes the function wait for this: it reads all tables of the node.
                    select t.table_name
                    where t.merge_state in ('in-copy', 'catching-up')
                        and coalesce(t.dest_table, t.table_name) in (select s.dest from shared s)
                    offset 0
                ) asks
                cross join lateral londiste._coordinate_copy(t.queue_name, asks.table_name) p
        ) c on true
    where t.queue_name = i_queue_name
        and (i_table_names is null or t.table_name = any(i_table_names))
    order by t.nr, t.table_name;
$$;
