create or replace function pgq_node.version()
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    /* Returns the version of the SQL in this schema. */
    select '4.0.0'::text;
$$;
