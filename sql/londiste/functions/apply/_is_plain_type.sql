create or replace function londiste._is_plain_type(i_type oid)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether reading a text as this type runs only functions of a superuser.
 *
 * True for types of PostgreSQL, base types of extensions, and enums.  False for domains, composite
 * types, ranges and arrays of these.
 */
select i_type < 16384 and t.typtype <> 'd' or t.typtype in ('b', 'e') and t.typelem = 0
from pg_type t
where t.oid = i_type;
$$;
