create or replace function londiste._capture_mark(
    i_relid oid,
    i_index oid,
    i_next int2,
    i_heirs bool)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
set bytea_output = hex
as $$
/*
 * Returns a value that changes with the names and types of a table's columns, and with its key.
 *
 * It reads the server's caches only, so it is fast in a session that has just begun, and right in a
 * transaction that is older than an ALTER TABLE.  If nothing is known, it is empty.
 *
 * i_index -- index of the primary key.  It is dropped when the key, or the type of its column, changes.
 * i_next -- number that the next column gets.  A column that is dropped and added again has this one.
 * i_heirs -- true: other tables that inherit from it count, too.  This reads the catalog.
 *
 * Declared immutable although it is not, as _capture_signature() is.
 */
declare
    v_mark text;
begin
    -- The output function of a record gives the types of its columns, row_to_json() the names.
    execute concat('select md5(concat(record_send(r.*), row_to_json(r.*))) from (select (null::', i_relid::regclass, ').*) as r')
    into v_mark;
    if i_heirs then
        v_mark := concat(v_mark, (select c.relhassubclass from pg_class as c where c.oid = i_relid));
    end if;
    -- An index that is dropped has a number for a name, and a column that does not exist has no privileges.
    return concat(i_relid::regclass, ' ', i_index::regclass, has_column_privilege(i_relid, i_next, 'select'), ' ', v_mark);
exception
    when others then
        -- The role may not name the table's type, or the table has another number here.
        return '';
end;
$$;
