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
 * Returns the rows of get_table_list() if the list has changed since a version.
 *
 * i_version -- the version of the caller's last call; NULL at first.
 *
 * The first row contains the version and no table.  If nothing has changed, no other row follows.
 *
 * The version covers all registrations, including those of other queues, since copy_role depends
 * on them.  Every committed change alters it, in whatever order changes commit.  The caller sees
 * version and tables in one snapshot.
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
