create or replace function pgq._checked_path(i_path text)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns a search_path with each schema quoted as needed, without "$user" and empty entries.
 *
 * Raises LD005 for a text that is no list of names, because the result goes into statements.
 */
declare
    v_name constant text := E'\\s*("(?:[^"]|"")+"|[^\\s",;''()]+)\\s*';
begin
    if btrim(i_path) = '' then
        return '';
    elsif i_path !~ ('^' || v_name || '(,' || v_name || ')*$') then
        raise exception using
            errcode = 'LD005',
            message = 'bad param to pgq trigger',
            detail = 'search_path= is no list of schemas',
            hint = 'write it as in SET: search_path=app,public';
    end if;
    return (
        select coalesce(string_agg(quote_ident(n.name), ', ' order by f.place), '')
        from regexp_matches(i_path, v_name, 'g') with ordinality as f (found, place)
            cross join lateral (
                select case when starts_with(f.found[1], '"')
                    then replace(substr(f.found[1], 2, length(f.found[1]) - 2), '""', '"')
                    else lower(f.found[1]) end) as n (name)
        where n.name <> '$user');
end;
$$;
