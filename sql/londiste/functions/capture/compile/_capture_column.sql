create or replace function londiste._capture_column(i_name text)
returns text
language sql
immutable strict
as $$
/*
 * Returns a column's name for PL/pgSQL text, always in quotes.
 *
 * quote_ident() leaves words unquoted that SQL does not reserve but PL/pgSQL does: new.by would
 * be an error in every write to the table.
 *
 * No search_path, so that it is inlined; all names are qualified.
 */
select '"' operator(pg_catalog.||) pg_catalog.replace(i_name, '"', '""') operator(pg_catalog.||) '"';
$$;
