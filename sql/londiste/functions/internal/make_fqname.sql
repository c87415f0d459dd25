create or replace function londiste.make_fqname(i_name text)
returns text
language plpgsql
immutable
strict
set search_path = pg_catalog, pg_temp
as $$
    /* Returns the name with its schema; a name without a dot gets the prefix 'public.'. */
begin
    return case when position('.' in i_name) > 0 then i_name else 'public.' || i_name end;
end;
$$;
