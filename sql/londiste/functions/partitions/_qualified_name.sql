create or replace function londiste._qualified_name(i_relid oid)
returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/* Returns the name of a table for SQL text, always with its schema. */
select format('%I.%I', n.nspname, c.relname)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.oid = i_relid;
$$;
