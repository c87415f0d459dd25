create or replace function londiste.change_form(
    i_queue_name text,
    i_table_name text,
    i_form text)
returns bool
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Changes the capture mode of a table.  Returns false when the table is set to this mode already.
 *
 * i_table_name -- name of the table in this database.
 * i_form -- row, statement or auto.
 *
 * Other options and the name in events stay.  The function locks the table against writers and
 * readers for a moment: set lock_timeout.
 */
declare
    v_capture record;
begin
    select c.args, (londiste._capture_options(c.args[3:])).form
        into v_capture
    from londiste._captures(i_queue_name) as c
    where c.relid = londiste._capture_relation(i_table_name);
    if not found then
        raise exception using
            errcode = 'LD004',
            message = format('Table %s has no capture for queue %s',
                londiste._full_name(i_table_name), i_queue_name),
            detail = 'a compatible trigger has one capture mode only, and a leaf captures nothing',
            hint = format('create the native capture: select londiste.create_capture(%L, %L)',
                i_queue_name, i_table_name);
    end if;
    -- An unknown form is refused also where nothing would change.
    perform londiste._capture_options(array['form=' || coalesce(i_form, '')]);
    if v_capture.form = i_form then
        return false;
    end if;
    perform londiste.create_capture(i_queue_name, i_table_name,
        array(
            select o.value
            from unnest(v_capture.args[3:]) with ordinality as o (value, place)
            where not starts_with(o.value, 'form=')
            order by o.place) || array['form=' || i_form],
        v_capture.args[2]);
    return true;
end;
$$;
