/*
 * Sets the path for stored statements of Londiste 3, until the end of the transaction: the schemas in
 * the path of the database, in which it left names without schema, after pg_catalog.
 */
select pg_catalog.set_config(
    'search_path',
    pg_catalog.concat_ws(', ', 'pg_catalog', nullif(s.reset_val, ''), 'pg_temp'),
    true)
from pg_catalog.pg_settings s
where s.name = 'search_path'
