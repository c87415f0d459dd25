create or replace function londiste._capture_relation(i_table_name text)
returns oid
language plpgsql
stable strict
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the oid of the table with this (unquoted) name, plain or partitioned; NULL for none.
 *
 * Only the first dot separates schema and name.
 */
begin
    return (
        select c.oid
        from (select londiste._full_name(i_table_name)) as f (name)
            join pg_namespace as n on n.nspname = split_part(f.name, '.', 1)
            join pg_class as c on c.relnamespace = n.oid
                and c.relname = substr(f.name, position('.' in f.name) + 1)
        where c.relkind in ('r', 'p'));
end;
$$;
