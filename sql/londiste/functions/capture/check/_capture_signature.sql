create or replace function londiste._capture_signature(i_relid oid)
returns text
language plpgsql
immutable strict
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
/*
 * Returns a value that changes with the table, its columns, their types, the key and inheritance.
 *
 * It also changes when other tables begin to inherit from the table.
 *
 * Declared immutable although it is not: called with a regclass constant, an immutable function is
 * evaluated when the plan is made, and every ALTER TABLE makes plans that mention the table invalid.
 * So a generated trigger function compares signatures without cost per row.  Inside a trigger it
 * returns what the server knows of the table, even if the transaction is older (_row_columns).
 */
begin
    return (
        select md5(concat_ws(' ', i_relid::regclass::text, londiste._capture_key_columns(i_relid, '{}'::text[])::text,
            (
                select string_agg(
                    concat_ws(' ', quote_ident(c.name), c.type_id::regtype, c.generated,
                        coalesce(a.attcollation, (select t.typcollation from pg_type as t where t.oid = c.type_id), 0)),
                    ',' order by c.pos)
                from londiste._row_columns(i_relid) as c
                    left join pg_attribute as a on a.attrelid = i_relid and a.attnum = c.pos),
            (
                select string_agg(a.attname::text, ',' order by a.attnum)
                from pg_attribute as a
                where a.attrelid = i_relid and a.attgenerated = 'v' and not a.attisdropped),
            (
                select 'heirs'
                from pg_class as c
                where c.oid = i_relid
                    and c.relkind = 'r'
                    and exists (select from pg_inherits as i where i.inhparent = c.oid)))));
end;
$$;
