create or replace function londiste.copy_obstacle(i_queue_name text, i_table_name text)
returns text
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns why the events of a table do not contain whole rows that the primary key identifies.
 *
 * NULL when they do, or when the table is captured on another node.  For a table that is captured on
 * another node, this shows only when its events are replayed.
 *
 * i_table_name -- name of the table in this database.
 */
declare
    v_relid oid := londiste.find_table_oid(i_table_name);
    v_capture record;
    v_options record;
begin
    if not pgq_node.is_root_node(i_queue_name) then
        return null;
    end if;
    select c.args into v_capture
    from londiste._captures(i_queue_name) c
    where c.relid = v_relid;
    if not found then
        return 'its changes are not captured by our own capture';
    end if;
    v_options := londiste._capture_options(v_capture.args[3:]);
    if v_options.ignored <> '{}' then
        return format('its capture leaves out columns: ignore=%s',
            array_to_string(v_options.ignored, ','));
    elsif v_options.condition is not null then
        return format('its capture leaves out rows: when=%s', v_options.condition);
    elsif v_options.ops <> 'IUD' then
        return format('its capture leaves out changes: ops=%s', v_options.ops);
    elsif num_nonnulls(variadic v_options.extras) > 0 then
        return 'its capture writes fields of its own: ev_extra2= to ev_extra4=';
    elsif v_options.key_columns is not null
        and v_options.key_columns <> pgq._key_columns(v_relid)
    then
        return format('its capture has another key than the primary key: pkey=%s',
            array_to_string(v_options.key_columns, ','));
    end if;
    return null;
end;
$$;
