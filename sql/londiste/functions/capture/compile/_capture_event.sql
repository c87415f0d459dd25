create or replace function londiste._capture_event(
    i_relid oid,
    i_options record,
    i_key text[],
    i_row text,
    i_old text,
    out data text,
    out extra2 text,
    out extra3 text,
    out extra4 text,
    out logged text)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the expressions for the fields of one event, and whether it is logged at all.
 *
 * i_row -- the row of the event.
 * i_old -- its state before; NULL when the event has none.
 * i_options -- the result of _capture_options().
 */
declare
    v_without text[] := array(
        select n.name from unnest(i_options.ignored) as n (name) where n.name <> all (i_key));
    v_extras text[] := array['null', 'null', 'null'];
begin
    data := londiste._capture_image(i_relid, i_row, v_without);
    if i_options.backup and i_old is not null then
        v_extras[1] := londiste._capture_image(i_relid, i_old, v_without);
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
    logged := case
        when i_options.condition is null then 'true'
        else londiste._capture_expression(i_relid, i_row, i_options.condition) || '::bool'
        end;
end;
$$;
