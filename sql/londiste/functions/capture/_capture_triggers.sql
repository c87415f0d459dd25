create or replace function londiste._capture_triggers(
    i_relid oid,
    i_table_name text,
    i_args text[],
    i_owner oid,
    out name text,
    out definition text)
returns setof record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * The triggers of a capture in its form: names, and definitions with %s for the table.
 *
 * A trigger for the rows, the one of the plain name, is always among them: in the statement form it
 * is the one for changed keys, whose WHEN clause is evaluated while rows are written.  Only
 * where no key can change it is one that never fires.
 */
declare
    v_options record := londiste._capture_options(i_args[3:]);
    v_key text[] := londiste._capture_key_columns(i_relid, i_args);
    v_events text[] := array(
        select e.event
        from (values ('I', 'insert'), ('U', 'update'), ('D', 'delete')) as e (letter, event)
        where position(e.letter in v_options.ops) > 0);
    v_event text;
begin
    name := londiste.trigger_name(i_args[1]);
    if (londiste._capture_form_of(i_relid, i_args, i_owner)).form = 'row' then
        definition := 'after ' || array_to_string(v_events, ' or ') || ' on %s for each row';
        return next;
    else
        definition := 'after update on %s for each row when ('
            || case when v_key <> '{}' and 'update' = any (v_events)
                then format('londiste.%I(new.*, old.*)', londiste._key_changed_name(i_args[1], i_table_name))
                else 'false' end
            || ')';
        return next;
        foreach v_event in array v_events loop
            name := londiste.trigger_name(i_args[1], v_event);
            definition := 'after ' || v_event || ' on %s referencing '
                || case v_event when 'delete' then 'old table as old_rows' else 'new table as new_rows' end
                || ' for each statement';
            return next;
        end loop;
    end if;
    name := londiste.trigger_name(i_args[1], 'truncate');
    definition := 'after truncate on %s for each statement';
    return next;
end;
$$;
