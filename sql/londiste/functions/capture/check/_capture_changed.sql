create or replace function londiste._capture_changed(i_relid oid, i_args text[], i_heirs bool)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the condition that a table has changed since its capture was created.
 *
 * i_heirs -- true: tables that begin to inherit from it are a change.
 *
 * It costs nothing per row: see _capture_signature().  Where the primary key is that of the events,
 * a mark is compared first (_capture_mark), which is ten times as fast to get in a new session.
 * A generated column or another key could change without a new mark, and a role that may not name the
 * table gets none.
 */
declare
    v_index oid := (select i.indexrelid from pg_index as i where i.indrelid = i_relid and i.indisprimary);
    v_table text := quote_literal(i_relid) || '::pg_catalog.regclass::pg_catalog.oid';
    v_next int2 := (select c.relnatts + 1 from pg_class as c where c.oid = i_relid);
    v_changed text := format('londiste._capture_signature(%1$s) operator(pg_catalog.<>) %2$L'
            || ' or pg_catalog.has_column_privilege(%1$s, %3$s::pg_catalog.int2, ''select'') is not null',
        v_table, londiste._capture_signature(i_relid), v_next);
    v_mark text := londiste._capture_mark(i_relid, v_index, v_next, i_heirs);
begin
    if v_index is null
        or v_mark = ''
        or (londiste._capture_options(i_args[3:])).key_columns is not null
        or exists (
            select from pg_attribute as a
            where a.attrelid = i_relid and a.attgenerated <> '' and not a.attisdropped)
    then
        return '(' || v_changed || ')';
    end if;
    return format('(londiste._capture_mark(%s, %s::pg_catalog.oid, %s::pg_catalog.int2, %s) operator(pg_catalog.<>) %L and (%s))',
        v_table, v_index, v_next, i_heirs::text, v_mark, v_changed);
end;
$$;
