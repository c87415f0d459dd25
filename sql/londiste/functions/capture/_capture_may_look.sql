create or replace function londiste._capture_may_look(i_relid oid)
returns bool
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Whether this role sees every row of a table, so that a row it does not find is not there.
 */
select has_table_privilege(i_relid, 'select') and not row_security_active(i_relid);
$$;
