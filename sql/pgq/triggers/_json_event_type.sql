create or replace function pgq._json_event_type(
    i_op text,
    i_schema text,
    i_table text,
    i_key text[])
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns ev_type of the JSON format: {"op":"INSERT","table":["public","fruit"],"pkey":["id"]}
 *
 * PL/pgSQL although one query, because its plan is kept between calls.
 */
begin
    return (
        select format('{"op":%s,"table":[%s,%s],"pkey":%s}',
            to_json(i_op), to_json(i_schema), to_json(i_table), to_json(i_key)));
end;
$$;
