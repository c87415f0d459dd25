create or replace function londiste.get_table_list_since(
    i_queue_name text,
    i_version text,
    out version text,
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
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * What get_table_list() says, if it is not what the caller has seen: he tells the version that came
 * with it, NULL at first.  Otherwise no table.
 *
 * The first row has the version and no table.  It stands for the versions of all registrations,
 * those of other queues too, since copy_role depends on them: whatever is committed changes it, in
 * whatever order, and who asks sees version and tables in one snapshot.
 */
begin
    select count(*) || ' ' || coalesce(sum(hashtextextended(t.ctid::text || ' ' || t.xmin::text, 0)), 0)
        into version
    from londiste.table_info t;
    return next;
    if version is distinct from i_version then
        return query
        select null::text, l.*
        from londiste.get_table_list(i_queue_name) l;
    end if;
end;
$$;
