create or replace function londiste._capture_relation(i_table_name text)
returns oid
language sql
stable strict
set search_path = pg_catalog, pg_temp
as $$
/*
 * The table of that (unquoted) name, plain or partitioned; NULL when there is none.  Only
 * the first dot splits.
 */
select c.oid
from (select londiste._full_name(i_table_name)) as f (name)
    join pg_namespace as n on n.nspname = split_part(f.name, '.', 1)
    join pg_class as c on c.relnamespace = n.oid
        and c.relname = substr(f.name, position('.' in f.name) + 1)
where c.relkind in ('r', 'p');
$$;
