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
     * Returns the tables of a queue, in the order in which they were added.
     *
     * copy_role, copy_pos -- the results of _coordinate_copy().
     */
    select t.table_name, t.local, t.merge_state, t.custom_snapshot, t.table_attrs,
           t.dropped_ddl, t.copy_role, t.copy_pos, t.dest_table
    from londiste.get_tables(i_queue_name, null::text[]) t;
$$;
