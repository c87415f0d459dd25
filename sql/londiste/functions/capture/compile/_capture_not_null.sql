create or replace function londiste._capture_not_null(i_table_name text, i_columns text[])
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
/* Returns the statement that makes columns of a table NOT NULL. */
select format('alter table %s ', londiste.quote_fqname(i_table_name))
    || string_agg(format('alter column %I set not null', c.name), ', ' order by c.place)
from unnest(i_columns) with ordinality as c (name, place);
$$;
