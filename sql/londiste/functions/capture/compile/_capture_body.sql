create or replace function londiste._capture_body(i_relid oid, i_args text[], i_owner oid)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set quote_all_identifiers = off
as $$
/*
 * Returns the body of the function that captures a table, in the capture mode that fits the table.
 *
 * i_args -- the trigger's arguments.
 * i_owner -- owner of the function.
 *
 * A pure function of the catalog.  So a comparison of its result with the body in the database shows
 * whether the table has changed.
 */
declare
    v_direct bool := coalesce(londiste._capture_direct(i_args[1], i_args, i_owner), false);
begin
    if (londiste._capture_form_of(i_relid, i_args, i_owner)).form = 'row' then
        return londiste._capture_row_body(i_relid, i_args, v_direct);
    end if;
    return londiste._capture_statement_body(i_relid, i_args, v_direct);
end;
$$;
