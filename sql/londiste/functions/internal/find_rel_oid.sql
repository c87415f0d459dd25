create or replace function londiste.find_rel_oid(i_fqname text, i_kind text)
returns oid
language plpgsql
stable
strict
set search_path = pg_catalog, pg_temp
as $$
    /* Returns the oid of a relation of one kind (pg_class.relkind); NULL when there is none. */
begin
    return (
        select c.oid
        from londiste.split_fqname(i_fqname) s,
            pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = s.schema_part
            and c.relname = s.name_part
            and c.relkind = i_kind::"char");
end;
$$;
