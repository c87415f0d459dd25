create or replace function pgq.version()
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * The release of the schema.  Ticker daemons want it to begin with 3 or a higher digit.
 */
    select '4.1.0';
$$;
