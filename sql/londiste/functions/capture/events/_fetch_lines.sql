create or replace function londiste._fetch_lines(i_lines refcursor, i_rows int4)
returns table (line text, key text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/* Returns the next rows of an open cursor over images and key texts. */
begin
    return query execute format('fetch %s from %I', i_rows, i_lines::text);
end;
$$;
