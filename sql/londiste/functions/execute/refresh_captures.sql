create or replace function londiste.refresh_captures(out table_name text)
returns setof text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Recreates all captures of this database whose tables have changed.  Returns the table names.
 *
 * A table that has lost all its columns keeps its capture as it is, and so, with a warning, does one that an
 * argument of its capture does not fit: the owner of one table must not stop what is done for others.
 * Call it in the transaction of the change, which already locks the table.
 */
declare
    v_capture record;
begin
    for v_capture in
        select c.relid, c.table_name as name, c.args
        from londiste._captures(null::text) c
            join pg_proc p on p.oid = c.function_id
        where position(quote_literal(londiste._capture_signature(c.relid)) in p.prosrc) = 0
            and exists (select from pgq._row_columns(c.relid))
    loop
        begin
            perform londiste.create_capture(v_capture.args[1], v_capture.name, v_capture.args[3:], v_capture.args[2]);
            table_name := v_capture.name;
            return next;
        exception
            when sqlstate 'LD005' then
                raise warning 'capture of % is left as it is: %', v_capture.name, sqlerrm;
        end;
    end loop;
end;
$$;
