-- The columns of the temporary table %(table)s of this session.
select a.attname::text
from pg_catalog.pg_attribute as a
where a.attrelid = pg_catalog.to_regclass('pg_temp.' || pg_catalog.quote_ident(%(table)s))
    and a.attnum > 0 and not a.attisdropped
order by a.attnum;
