create or replace function pgq.version()
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the release of the schema.  Ticker daemons require a first digit of 3 or higher.
 */
    select '4.1.0';
$$;
