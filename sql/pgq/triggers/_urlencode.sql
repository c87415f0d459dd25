create or replace function pgq._urlencode(i_text text)
returns text
language plpgsql
immutable strict
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns a text url-encoded.
 *
 * A-Z a-z 0-9 _ . - stay, a blank becomes '+', every other byte of its
 * UTF-8 form becomes % and two lower-case hex digits.
 */
declare
    v_text text;
    v_char text;
begin
    if i_text !~ '[^A-Za-z0-9_.-]' then
        return i_text;
    end if;
    -- These three first: the loop inserts only these and safe characters.
    v_text := replace(replace(replace(i_text, '%', '%25'), '+', '%2b'), ' ', '+');
    for v_char in
        select distinct c.value collate "C"
        from string_to_table(v_text, null) as c (value)
        where (c.value collate "C") !~ '[A-Za-z0-9_.%+-]'
    loop
        v_text := replace(v_text, v_char,
            regexp_replace(encode(convert_to(v_char, 'UTF8'), 'hex'),
                '(..)', E'%\\1', 'g'));
    end loop;
    return v_text;
end;
$$;
