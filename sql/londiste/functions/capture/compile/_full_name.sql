create or replace function londiste._full_name(i_name text)
returns text
language plpgsql
immutable strict
set search_path = pg_catalog, pg_temp
as $$
/* Returns schema.name as the queue writes it: without a dot the schema is public. */
begin
    return case position('.' in i_name) when 0 then 'public.' || i_name else i_name end;
end;
$$;
