create or replace function londiste._capture_null_key(i_args text[], i_key text[])
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Refuses a change of a row whose key contains NULL, because no other node could find the row.
 *
 * i_args -- queue, and table name for the events.
 */
begin
    raise exception using
        errcode = 'LD100',
        message = 'Change of a row whose key is NULL',
        detail = format('key (%s) of table %s, which is in queue %s',
            array_to_string(i_key, ', '), i_args[2], i_args[1]),
        hint = 'keep NULL out of the key: ' || londiste._capture_not_null(i_args[2], i_key);
end;
$$;
