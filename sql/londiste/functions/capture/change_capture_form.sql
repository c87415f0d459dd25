create or replace function londiste.change_capture_form(
    i_queue_name text,
    i_table_name text,
    i_form text,
    out form text,
    out reason text)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Makes the capture of a table anew in another form: auto, row or statement; returns the form it has
 * then, and why.
 *
 * The row form may be had for every table.  Where the statement form is not safe the row form stays,
 * and the reason says why.  Takes SHARE ROW EXCLUSIVE on the table: callers set lock_timeout.
 */
declare
    v_capture record;
begin
    if i_form is null or i_form not in ('auto', 'row', 'statement') then
        raise exception using
            errcode = 'LD005',
            message = format('capture has no form %s', coalesce(quote_literal(i_form), 'NULL')),
            hint = 'forms are auto, row and statement';
    end if;
    select c.args into v_capture
    from londiste._captures(i_queue_name) as c
    where c.relid = londiste._capture_relation(i_table_name);
    if not found then
        raise exception using
            errcode = 'LD004',
            message = format('Table %s has no capture for queue %s',
                londiste._full_name(i_table_name), i_queue_name),
            hint = format('create it: select londiste.create_capture(%L, %L)',
                i_queue_name, i_table_name);
    end if;
    perform londiste.create_capture(i_queue_name, i_table_name,
        array(
            select a.value
            from unnest(v_capture.args[3:]) with ordinality as a (value, place)
            where not starts_with(a.value, 'form=')
            order by a.place)
        || case i_form when 'auto' then '{}' else array['form=' || i_form] end,
        v_capture.args[2]);
    select f.form, f.reason into form, reason
    from londiste.capture_forms(i_queue_name) as f
    where f.table_name = londiste._full_name(i_table_name);
end;
$$;
