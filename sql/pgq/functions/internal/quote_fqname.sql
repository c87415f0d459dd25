create or replace function pgq.quote_fqname(i_name text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the name of a table, sequence or function, quoted for use in SQL.
 *
 * Only the first dot separates schema and name; a name without a dot is in public.
 */
    select case
        when strpos(i_name, '.') > 0 then
            quote_ident(substr(i_name, 1, strpos(i_name, '.') - 1))
            || '.' || quote_ident(substr(i_name, strpos(i_name, '.') + 1))
        else 'public.' || quote_ident(i_name)
    end;
$$;
