create or replace function pgq._expression_sql(i_expression text, i_columns text[], i_row text)
returns text
language plpgsql
immutable strict
set search_path = pg_catalog, pg_temp
as $$
/*
 * An expression of a trigger, with the columns that it names written as fields of the row i_row.
 *
 * Each word that is a column, exactly as written, becomes one: user and order too, and Kind, before
 * SQL gives these words a meaning of its own.  What is no name stays: literals, comments, names in
 * double quotes, functions, types after ::, parts of qualified names.
 */
declare
    -- A word consists of what is neither space nor an ASCII sign.
    v_token constant text := '^(--[^\n]*|[A-Za-z&]*''(?:[^'']|'''')*''|"(?:[^"]|"")*"'
        '|[0-9][0-9A-Za-z_.]*|::|\s+|'
        '[^\u0001-\u0040\u005b-\u005e\u0060\u007b-\u007f]'
        '[^\u0001-\u0023\u0025-\u002f\u003a-\u0040\u005b-\u005e\u0060\u007b-\u007f]*)';
    v_rest text := i_expression;
    v_result text := '';
    v_before text := '';
    v_found text;
    v_tag text;
begin
    while v_rest <> '' loop
        v_tag := substring(v_rest from '^[$](?:[^0-9$ ][^$ ]*)?[$]');
        v_found := coalesce(
            case
                when v_tag is not null then v_tag || substring(v_rest from length(v_tag) + 1
                    for nullif(strpos(substr(v_rest, length(v_tag) + 1), v_tag), 0) + length(v_tag) - 1)
                when starts_with(v_rest, '/*') then
                    left(v_rest, nullif(strpos(v_rest, '*/'), 0) + 1)
                when v_rest ~* '^e''' then substring(v_rest from '^(..(?:[^''\\]|\\.|'''')*'')')
            end,
            substring(v_rest from v_token),
            left(v_rest, 1));
        v_rest := substr(v_rest, length(v_found) + 1);
        if v_found = any (i_columns)
            and lower(v_before) <> all ('{.,::,as}')
            and v_rest !~ '^\s*[(.]'
        then
            v_result := v_result || format('((%s)."%s")', i_row, replace(v_found, '"', '""'));
        else
            v_result := v_result || v_found;
        end if;
        if v_found !~ '^(\s|--|/[*])' then
            v_before := v_found;
        end if;
    end loop;
    return v_result;
end;
$$;
