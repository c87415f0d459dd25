create or replace function londiste._note_version(i_queue_name text, i_table_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores the current version of a table in sync, and clears what was found about earlier ones.
 */
begin
    insert into londiste.table_version as v
        (queue_name, table_name, relid, filenode, columns, last_column, rewritten_at, home, replaced_at, names,
        partitions)
    select t.queue_name, t.table_name, r.oid, m.filenode, m.columns, m.last_column, null,
        'londiste.table_info'::regclass, null, m.names,
        londiste._partitions(r.oid)
    from londiste.table_info t
        cross join lateral londiste.find_table_oid(coalesce(t.dest_table, t.table_name)) r (oid)
        cross join lateral londiste._table_mark(r.oid) m
    where t.queue_name = i_queue_name
        and t.table_name = i_table_name
        and t.local
        and t.merge_state = 'ok'
        and r.oid is not null
        and m.columns is not null
    on conflict (queue_name, table_name) do update
        set relid = excluded.relid,
            filenode = excluded.filenode,
            columns = excluded.columns,
            last_column = excluded.last_column,
            rewritten_at = null,
            home = excluded.home,
            replaced_at = null,
            names = excluded.names,
            partitions = excluded.partitions;
end;
$$;
