create or replace function londiste._capture_line(
    i_relid oid,
    i_row text,
    i_names text[],
    out image text,
    out source text)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the expression for the image of a row, and the subquery in FROM that it needs ('' for none).
 *
 * A row that row_to_json() writes without loss is given to it as it is: new and old in a row trigger,
 * n and o for a row of a transition table.  Otherwise the subquery r has the columns, those that
 * would change as text; in FROM it costs less than inside the expression.  Partitions may have their
 * columns in another order, so their rows always go through it.
 */
declare
    v_plain bool;
begin
    select bool_and(c.as_json = '%1$s' and c.generated = '')
            and array_agg(c.name order by c.pos) = i_names
            and bool_and(r.relkind = 'r')
            -- A virtual generated column is none of _row_columns(), but would be in the JSON.
            and not exists (
                select from pg_attribute as a
                where a.attrelid = i_relid and a.attnum > 0 and not a.attisdropped
                    and a.attgenerated <> '')
        into v_plain
    from londiste._row_columns(i_relid) as c
        join pg_class as r on r.oid = i_relid
    where i_row in ('new', 'old', 'n', 'o');
    if v_plain then
        image := format('pg_catalog.row_to_json(%s%s)::pg_catalog.text', i_row,
            case when length(i_row) = 1 then '.*' else '' end);
        source := '';
    elsif i_names = '{}' then
        image := '''{}''::pg_catalog.text';
        source := '';
    else
        image := 'pg_catalog.row_to_json(r.*)::pg_catalog.text';
        source := '(select ' || (
            select string_agg(
                format(c.as_json, i_row || '.' || n.quoted)
                    || case c.as_json when '%1$s' then '' else ' as ' || n.quoted end,
                ', ' order by c.pos)
            from londiste._row_columns(i_relid) as c
                cross join londiste._capture_column(c.name) as n (quoted)
            where c.name = any (i_names)) || ') as r';
    end if;
end;
$$;
