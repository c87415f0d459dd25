create or replace function londiste._row_columns(i_relid oid)
returns table (
    pos int2,
    name text,
    type_id oid,
    generated "char",
    as_text text,
    as_json text)
language sql
stable
as $$
/*
 * Returns the columns of a table as pgq._row_columns() does; inside a trigger those of its rows.
 *
 * A transaction can be older than the last ALTER TABLE, and read other columns in the catalog than the
 * server gives to its triggers.
 */
select c.pos, c.name, c.type_id, c.generated, c.as_text, c.as_json
from pgq._row_columns(i_relid) as c
where pg_catalog.pg_trigger_depth() operator(pg_catalog.=) 0
union all
select c.pos, c.name, c.type_id, c.generated, c.as_text, c.as_json
from londiste._columns_now(i_relid) as c
where pg_catalog.pg_trigger_depth() operator(pg_catalog.>) 0;
$$;
