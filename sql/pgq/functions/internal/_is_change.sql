create or replace function pgq._is_change(i_type text)
returns boolean
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether an event of this type contains a change of a table, exactly as a trigger writes it.
 */
    select coalesce(i_type ~ '^([IUDR]$|[IUD]:|[{])', false);
$$;
