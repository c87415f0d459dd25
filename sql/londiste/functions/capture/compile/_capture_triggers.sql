create or replace function londiste._capture_triggers(
    i_relid oid,
    i_args text[],
    i_owner oid,
    out name text,
    out definition text,
    out fires bool,
    out deferred bool)
returns setof record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the triggers of a capture in its mode: names, and definitions with %s for the table.
 *
 * The first one has the plain name, which identifies the capture.  In the row form it is the one for
 * the rows, in the statement form that of the first operation.
 *
 * deferred -- true: the trigger fires for rows before the commit, after the check of their keys.  The
 *     server fires the triggers of a row in the order of their names; its own begin with a capital
 *     letter, Londiste's with an underscore.
 * fires -- false for a trigger to be disabled.  Writes through a parent do not fire statement
 *     triggers.  A table that has a row trigger with a transition table cannot become a partition or
 *     inherit, even if the trigger never fires.  So no change remains without an event.
 */
declare
    v_options record := londiste._capture_options(i_args[3:]);
    v_events text[] := array(
        select e.event
        from (values ('U', 'update'), ('I', 'insert'), ('D', 'delete')) as e (letter, event)
        where position(e.letter in v_options.ops) > 0);
    v_event text;
begin
    fires := true;
    deferred := false;
    name := londiste.trigger_name(i_args[1]);
    if (londiste._capture_form_of(i_relid, i_args, i_owner)).form = 'row' then
        definition := 'after ' || array_to_string(v_events, ' or ') || ' on %s for each row';
        return next;
        if londiste._capture_always_state(i_relid, londiste._capture_key_columns(i_relid, i_args)) then
            deferred := true;
            name := londiste.trigger_name(i_args[1], 'commit');
            definition := 'after ' || array_to_string(v_events, ' or ')
                || ' on %s deferrable initially deferred for each row';
            return next;
            deferred := false;
        end if;
    else
        foreach v_event in array v_events loop
            if v_event <> v_events[1] then
                name := londiste.trigger_name(i_args[1], v_event);
            end if;
            definition := 'after ' || v_event || ' on %s referencing '
                || case v_event
                    when 'insert' then 'new table as new_rows'
                    when 'update' then 'old table as old_rows new table as new_rows'
                    else 'old table as old_rows'
                end
                || ' for each statement';
            return next;
        end loop;
        fires := false;
        name := londiste.trigger_name(i_args[1], 'no_partition');
        definition := 'after delete on %s referencing old table as old_rows for each row when (false)';
        return next;
        fires := true;
    end if;
    name := londiste.trigger_name(i_args[1], 'truncate');
    definition := 'after truncate on %s for each statement';
    return next;
    if (select c.relkind = 'p' from pg_class as c where c.oid = i_relid) then
        -- Its partitions have one each, too (_capture_partitions): they fire with it.
        name := londiste.trigger_name(i_args[1], 'truncating');
        definition := 'before truncate on %s for each statement';
        return next;
    end if;
end;
$$;
