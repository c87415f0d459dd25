create or replace function londiste._capture_signature(i_relid oid)
returns text
language sql
immutable strict
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
/*
 * Changes when the table, a column of it, a column's type or the key changes, and when other tables begin to inherit from it.
 *
 * A lie on purpose: called with a regclass constant, an immutable function is evaluated when
 * the plan is made, and every ALTER TABLE makes plans that mention the table invalid.  So a
 * generated trigger function compares signatures for nothing per row.
 */
select md5(concat_ws(' ', i_relid::regclass::text, pgq._key_columns(i_relid)::text,
    string_agg(
        concat_ws(' ', quote_ident(a.attname), a.atttypid::regtype, a.attgenerated, a.attcollation),
        ',' order by a.attnum),
    (select 'heirs' from pg_class as c
    where c.oid = i_relid and c.relkind = 'r' and exists (select from pg_inherits as i where i.inhparent = c.oid))))
from pg_attribute as a
where a.attrelid = i_relid
    and a.attnum > 0
    and not a.attisdropped;
$$;
