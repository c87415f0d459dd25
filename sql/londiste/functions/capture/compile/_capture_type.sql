create or replace function londiste._capture_type(
    i_op text,
    i_table text,
    i_key text[],
    i_columns text[],
    i_more text default '')
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns ev_type of the native capture: that of the JSON format with an additional "row".
 *
 * "row" stands for the columns in the image and means that ev_extra3 is the key.
 *
 * i_columns -- NULL: without "row".
 * i_more -- "state", "pack" or both with a comma.
 */
begin
    return (
        select left(t.type, -1)
            || coalesce(',"row":"' || left(md5(array_to_string(i_columns, ',')), 8) || '"', '')
            || case when i_more like '%state%' then ',"state":true' else '' end
            || case when i_more like '%pack%' then ',"pack":true' else '' end
            || '}'
        from pgq._json_event_type(i_op, split_part(i_table, '.', 1),
            substr(i_table, position('.' in i_table) + 1), i_key) as t (type));
end;
$$;
