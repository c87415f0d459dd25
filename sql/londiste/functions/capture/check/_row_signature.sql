create or replace function londiste._row_signature(i_relid oid)
returns text
language sql
immutable strict
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns a value that changes with the columns of the table: added, dropped, renamed, other type.
 *
 * Declared immutable although it is not: called with a regclass constant, an immutable function is
 * evaluated when the plan is made, and every ALTER TABLE makes plans that mention the table invalid.
 * So a generated trigger function compares signatures without cost per row.
 */
select md5(string_agg(
    concat_ws(' ', quote_ident(a.attname), a.atttypid::regtype, a.attgenerated),
    ',' order by a.attnum))
from pg_attribute as a
where a.attrelid = i_relid
    and a.attnum > 0
    and not a.attisdropped;
$$;
