create or replace function londiste.quote_fqname(i_name text)
returns text
language sql
immutable
strict
set search_path = pg_catalog, pg_temp
as $$
    /* Returns the name for SQL text: schema and name quoted where they need it. */
    select quote_ident(s.schema_part) || '.' || quote_ident(s.name_part)
    from londiste.split_fqname(i_name) s;
$$;
