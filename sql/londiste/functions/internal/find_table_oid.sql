create or replace function londiste.find_table_oid(tbl text)
returns oid
language plpgsql
stable
strict
set search_path = pg_catalog, pg_temp
as $$
    /* Returns the oid of a table, plain or partitioned; NULL when there is none. */
declare
    v_dot int4 := position('.' in tbl);
begin
    return (
        select c.oid
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = case v_dot when 0 then 'public' else left(tbl, v_dot - 1) end
            and c.relname = substr(tbl, v_dot + 1)
            and c.relkind in ('r', 'p'));
end;
$$;
