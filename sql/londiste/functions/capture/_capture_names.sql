create or replace function londiste._capture_names(i_relid oid, i_without text[])
returns text[]
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/* The columns of a row image, in order: all but generated ones and those of i_without. */
select array(
    select c.name
    from pgq._row_columns(i_relid) as c
    where c.generated = ''
        and c.name <> all (i_without)
    order by c.pos);
$$;
