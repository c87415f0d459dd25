create or replace function londiste._install_key_changed(
    i_relid oid,
    i_table_name text,
    i_args text[])
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Creates the function that says whether an UPDATE changed the key of a row, for the WHEN clause of the
 * statement form; returns its quoted name.
 *
 * The clause names whole rows only.  With columns in it the server would refuse to change
 * the type of a key column, or to drop it.  The function fits no more when the key has changed: then it says
 * yes for every row, and the trigger looks.  The regclass constant makes its plan anew after an ALTER
 * TABLE, when the types of the rows are others.
 */
declare
    v_function text := format('londiste.%I', londiste._key_changed_name(i_args[1], i_table_name));
    v_key text[] := londiste._capture_key_columns(i_relid, i_args);
begin
    execute format('create or replace function %s(i_new anyelement, i_old anyelement) returns bool'
            || ' language plpgsql stable as %L',
        v_function,
        format($source$
/* Made by londiste.create_capture(). */
begin
    if londiste._key_signature(%1$L::pg_catalog.regclass, %2$L::pg_catalog.text[])
        operator(pg_catalog.<>) %3$L
    then
        return true;
    end if;
    return (%4$s) or %1$L::pg_catalog.regclass is null;
end;
$source$,
            i_relid, i_args, londiste._key_signature(i_relid, i_args),
            londiste._capture_key_changed(i_relid, v_key, 'i_new', 'i_old')));
    -- It runs as whoever writes to the table.
    execute format('grant execute on function %s(anyelement, anyelement) to public', v_function);
    return v_function;
end;
$$;
