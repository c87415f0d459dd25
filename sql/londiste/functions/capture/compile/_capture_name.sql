create or replace function londiste._capture_name(i_queue_name text, i_table_name text)
returns text
language plpgsql
immutable strict
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the name of the generated trigger function for a table in a queue.
 *
 * Always with a hash, because the parts can contain the separator: queue a_b and schema c
 * must not get the name of queue a and schema b_c.
 */
declare
    v_table text := londiste._full_name(i_table_name);
    v_start text := left('_capture_' || i_queue_name || '_' || replace(v_table, '.', '_'), 54);
begin
    while octet_length(v_start) > 54 loop
        v_start := left(v_start, -1);
    end loop;
    return v_start || '_' || left(md5(quote_literal(i_queue_name) || quote_literal(v_table)), 8);
end;
$$;
