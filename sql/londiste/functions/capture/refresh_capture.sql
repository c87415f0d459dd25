create or replace function londiste.refresh_capture(i_queue_name text, i_table_name text)
returns bool
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
/*
 * Recreates the capture of a table after the table has changed.  Returns true when it was stale.
 *
 * Call it in the transaction of the ALTER TABLE if possible.  Until then all changes are captured,
 * only slower.  Options and the name in events stay.  Raises LD005 when an expression of them does not
 * fit the table any more: then each write fails until create_capture() gets another one.
 */
declare
    v_capture record;
begin
    select c.relid, c.args, londiste._is_stale_capture(c.relid, c.function_id, c.args) as is_stale
        into v_capture
    from londiste._captures(i_queue_name, array[londiste._capture_relation(i_table_name)]) as c;
    if not found then
        raise exception using
            errcode = 'LD004',
            message = format('Table %s has no capture for queue %s',
                londiste._full_name(i_table_name), i_queue_name),
            hint = format('create it: select londiste.create_capture(%L, %L)',
                i_queue_name, i_table_name);
    end if;
    if not v_capture.is_stale then
        -- As create_capture() does it.
        perform londiste._require_arguments(v_capture.relid, v_capture.args[3:]);
        return false;
    end if;
    perform londiste.create_capture(i_queue_name, i_table_name,
        v_capture.args[3:], v_capture.args[2]);
    return true;
end;
$$;
