create or replace function londiste._short_name(i_name text)
returns text
language plpgsql
immutable strict
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the name itself if the server can keep it; otherwise its beginning and a hash of all.
 *
 * PostgreSQL cuts longer names silently, and two objects become one.
 */
declare
    v_start text := left(i_name, 54);
begin
    if octet_length(i_name) <= 63 then
        return i_name;
    end if;
    while octet_length(v_start) > 54 loop
        v_start := left(v_start, -1);
    end loop;
    return v_start || '_' || left(md5(i_name), 8);
end;
$$;
