create or replace function londiste.make_fqname(i_name text)
returns text
language sql
immutable
strict
set search_path = pg_catalog, pg_temp
as $$
    /* The name with its schema: 'public.' goes in front of a name without a dot. */
    select case when position('.' in i_name) > 0 then i_name else 'public.' || i_name end;
$$;
