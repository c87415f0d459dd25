create or replace function londiste._key_changed_name(i_queue_name text, i_table_name text)
returns text
language sql
immutable strict
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the name of an old function that reported whether an UPDATE changed a key.
 *
 * Row triggers of the statement form called it.  Only drop_capture() needs the name.
 */
select '_key_changed_'
    || md5(quote_literal(i_queue_name) || quote_literal(londiste._full_name(i_table_name)));
$$;
