create or replace function londiste._row_columns(i_relid oid)
returns table (
    pos int2,
    name text,
    type_id oid,
    generated "char",
    as_text text,
    as_json text)
language plpgsql
stable
rows 10
set plan_cache_mode = force_generic_plan
as $$
/*
 * Returns the columns of a table as pgq._row_columns() does; inside a trigger those of its rows.
 *
 * Its plan is kept for all that read it, and they are planned for few rows.
 *
 * A transaction can be older than the last ALTER TABLE, and read other columns in the catalog than the
 * server gives to its triggers.
 */
begin
    if pg_catalog.pg_trigger_depth() operator(pg_catalog.=) 0 then
        return query select * from pgq._row_columns(i_relid);
    else
        return query select * from londiste._columns_now(i_relid);
    end if;
end;
$$;
