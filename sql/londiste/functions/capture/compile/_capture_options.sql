create or replace function londiste._capture_options(
    i_options text[],
    out key_columns text[],
    out ignored text[],
    out condition text,
    out extras text[],
    out backup bool,
    out deny bool,
    out ops text,
    out form text,
    out path text)
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the checked options of create_capture().
 *
 * key_columns and condition are NULL when not given; key_columns contains the texts between the
 * commas, see _capture_key_columns().  extras holds three expressions or NULLs, for ev_extra2 to
 * ev_extra4.  ops is a subset of IUD in this order.  form is auto, row or statement: row with
 * whole_row, which is for tables without a key.  path is the value of search_path=.
 */
declare
    whole_row bool := false;
    v_option text;
    v_name text;
    v_value text;
begin
    ignored := '{}';
    extras := array_fill(null::text, array[3]);
    backup := false;
    deny := false;
    ops := 'IUD';
    form := 'auto';
    foreach v_option in array coalesce(i_options, '{}') loop
        v_name := split_part(v_option, '=', 1);
        v_value := substr(v_option, length(v_name) + 2);
        if v_option in ('backup', 'deny', 'whole_row') then
            backup := backup or v_option = 'backup';
            deny := deny or v_option = 'deny';
            whole_row := whole_row or v_option = 'whole_row';
        elsif v_name = v_option then
            v_name := null;
        elsif v_name = 'pkey' then
            key_columns := string_to_array(v_value, ',');
        elsif v_name = 'ignore' then
            ignored := pgq._column_list(string_to_array(v_value, ','), null::text[]);
        elsif v_name = 'when' then
            condition := v_value;
        elsif v_name = 'search_path' then
            path := pgq._checked_path(v_value);
        elsif v_name in ('ev_extra2', 'ev_extra3', 'ev_extra4') then
            extras[right(v_name, 1)::int - 1] := v_value;
        elsif v_name = 'ops' and v_value ~ '^[IUD]+$' then
            ops := translate('IUD', translate('IUD', v_value, ''), '');
        elsif v_name = 'form' and v_value in ('auto', 'row', 'statement') then
            form := v_value;
        else
            v_name := null;
        end if;
        if v_name is null then
            raise exception using
                errcode = 'LD005',
                message = format('capture does not take the option %L', v_option),
                detail = 'known are pkey=, ignore=, when=, ev_extra2= to ev_extra4=, ops=IUD,'
                    ' search_path=, form=auto, row or statement, backup, deny and whole_row',
                hint = 'for anything else use a compatible trigger: tgflags=L or tgflags=J';
        end if;
    end loop;
    if whole_row then
        -- An update is logged as two events: the old row, then the new row.
        form := 'row';
    end if;
end;
$$;
