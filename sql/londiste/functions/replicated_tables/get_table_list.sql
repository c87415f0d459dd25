create or replace function londiste.get_table_list(
    i_queue_name text,
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
     * The tables of a queue in the order of adding; copy_role and copy_pos are what
     * _coordinate_copy() says.
     */
    select t.table_name, t.local, t.merge_state, t.custom_snapshot, t.table_attrs,
           t.dropped_ddl, c.copy_role, coalesce(c.copy_pos, 0), t.dest_table
    from londiste.table_info t
        -- the condition inside is checked first: not evaluated for tables that do not copy
        left join lateral (
            select p.copy_role, p.copy_pos
            from londiste._coordinate_copy(t.queue_name, t.table_name) p
            where t.merge_state in ('in-copy', 'catching-up')
        ) c on true
    where t.queue_name = i_queue_name
    order by t.nr, t.table_name;
$$;
