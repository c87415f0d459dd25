create or replace function londiste._capture_now(
    i_relid oid,
    i_args text[],
    i_new text,
    i_old text)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
/*
 * Returns what captures a table that has changed since its capture was created, as JSON.
 *
 * It contains _capture_pieces() and all else that depends on the catalog.
 *
 * Declared immutable although it is not, as in _capture_signature().  It is evaluated when the plan is
 * made: once for a session and a change of the table.  It takes as long as a thousand rows.
 */
declare
    v_pieces record := londiste._capture_pieces(i_relid, i_args, i_new, i_old);
begin
    return (row_to_json(v_pieces)::jsonb || jsonb_build_object(
        'always_state', londiste._capture_always_state(i_relid, v_pieces.key_columns),
        'again', format('(select exists (select from old_rows as o join %s as t on %s))',
            londiste._capture_from(i_relid),
            londiste._capture_same(i_relid, v_pieces.key_columns, 't', 'o'))))::text;
end;
$$;
