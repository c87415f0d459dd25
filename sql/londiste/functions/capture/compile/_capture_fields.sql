create or replace function londiste._capture_fields(
    i_relid oid,
    i_options record,
    i_key text[],
    i_row text,
    i_old text,
    i_names text[],
    out image text,
    out source text,
    out extra2 text,
    out extra3 text,
    out extra4 text,
    out logged text)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the expressions for the fields of one event, their FROM item, and whether it is logged.
 *
 * i_row -- the row of the event.
 * i_old -- its state before; NULL when the event has none.
 * i_names -- the columns of the image.
 * i_options -- the result of _capture_options().
 */
declare
    v_extras text[] := array['null', londiste._capture_key(i_relid, i_row, i_key), 'null'];
begin
    select l.image, l.source into image, source
    from londiste._capture_line(i_relid, i_row, i_names) as l;
    if i_options.backup and i_old is not null then
        v_extras[1] := londiste._capture_image(i_relid, i_old,
            array(select n.name from unnest(i_options.ignored) as n (name) where n.name <> all (i_key)));
    end if;
    for v_place in 1 .. 3 loop
        if i_options.extras[v_place] is not null then
            v_extras[v_place] :=
                londiste._capture_expression(i_relid, i_row, i_options.extras[v_place]);
        end if;
    end loop;
    extra2 := v_extras[1];
    extra3 := v_extras[2];
    extra4 := v_extras[3];
    logged := londiste._capture_expression(i_relid, i_row, i_options.condition) || '::pg_catalog.bool';
end;
$$;
