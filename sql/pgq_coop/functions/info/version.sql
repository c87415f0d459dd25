create or replace function pgq_coop.version()
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the release of the schema.
 */
    select '4.1.0'::text;
$$;
