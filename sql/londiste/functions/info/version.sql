create or replace function londiste.version()
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    /* Returns the version of the SQL in this schema. */
    select '4.1.0'::text;
$$;
