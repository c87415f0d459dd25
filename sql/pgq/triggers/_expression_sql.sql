create or replace function pgq._expression_sql(i_expression text, i_columns text[], i_row text)
returns text
language plpgsql
immutable strict
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns an expression of a trigger in which column names are fields of the row i_row.
 *
 * Each word that is a column, exactly as written, becomes a field.  This includes user, order and
 * Kind, before SQL gives these words its own meaning.  Everything else stays: literals, comments,
 * names in double quotes, functions, types after ::, parts of qualified names.
 */
declare
    -- A word consists of what is neither space nor an ASCII sign; a bracket or a dot after it
    -- belongs to it here, for then it is no column.
    v_start constant text := E'[^\\u0001-\\u0040\\u005b-\\u005e\\u0060\\u007b-\\u007f]';
    v_word constant text := v_start || E'[^\\u0001-\\u0023\\u0025-\\u002f\\u003a-\\u0040\\u005b-\\u005e\\u0060\\u007b-\\u007f]*';
    v_tag constant text := '[$]' || v_start || E'[^\\u0001-\\u002f\\u003a-\\u0040\\u005b-\\u005e\\u0060\\u007b-\\u007f]*[$]';
    v_token constant text := E'--[^\\n]*|/[*](?:[^*]|[*]+[^*/])*[*]+/'
        '|[eE]''(?:[^''\\\\]|\\\\.|'''')*''|(?:[nNbBxX]|[uU]&)?''(?:[^'']|'''')*''|"(?:[^"]|"")*"'
        '|[$][$](?:[^$]|[$][^$])*[$][$]|' || v_tag || '.*' || v_tag ||
        '|[0-9][0-9A-Za-z_.]*|::|' || v_word || E'(?:\\s*[(.])?|\\s+|.';
    v_result text := '';
    v_before text := '';
    v_found text;
begin
    for v_found in
        select t.found[1] from regexp_matches(i_expression, v_token, 'g') with ordinality as t (found, place)
        order by t.place
    loop
        if v_found = any (i_columns)
            and right(v_before, 1) <> '.'
            and v_before <> '::'
            and lower(v_before) <> 'as'
        then
            v_result := v_result || format('((%s)."%s")', i_row, replace(v_found, '"', '""'));
        else
            v_result := v_result || v_found;
        end if;
        if v_found !~ E'^(\\s|--|/[*])' then
            v_before := v_found;
        end if;
    end loop;
    return v_result;
end;
$$;
