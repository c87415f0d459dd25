create or replace function pgq._sql_fragment(
    i_op text,
    i_names text[],
    i_new text[],
    i_old text[],
    i_key text[])
returns text
language plpgsql
immutable
as $$
/*
 * Returns the part of an INSERT, UPDATE or DELETE that follows the name of the table.
 *
 * i_names -- column names in the order of the table.
 * i_new, i_old -- the values of i_names.
 *
 * Key columns are never set: they are equal, though their texts may differ.  An UPDATE that changes
 * nothing else sets the first one to itself, because there is no empty SET.
 *
 * No search_path of its own: _log_change(), which calls it, has pinned one.
 */
declare
    v_set text;
    v_where text;
begin
    if i_op = 'INSERT' then
        return (
            select '(' || string_agg(quote_ident(f.name), ',' order by f.place)
                || ') values (' || string_agg(coalesce(quote_literal(f.value), 'null'), ','
                    order by f.place) || ')'
            from unnest(i_names, i_new) with ordinality as f (name, value, place));
    end if;
    select string_agg(
            quote_ident(f.name) || coalesce('=' || quote_literal(f.value), ' is null'), ' and '
            order by f.place)
        into v_where
    from unnest(i_names, i_old) with ordinality as f (name, value, place)
    where f.name = any (i_key);
    if i_op = 'DELETE' then
        return v_where;
    end if;
    select string_agg(quote_ident(f.name) || '=' || coalesce(quote_literal(f.new), 'NULL'), ','
            order by f.place)
        into v_set
    from unnest(i_names, i_new, i_old) with ordinality as f (name, new, old, place)
    where f.new is distinct from f.old
        and f.name <> all (i_key);
    if v_set is null then
        select quote_ident(f.name) || '=' || coalesce(quote_literal(f.value), 'NULL')
            into v_set
        from unnest(i_names, i_old) with ordinality as f (name, value, place)
        where f.name = any (i_key)
        order by f.place
        limit 1;
    end if;
    return v_set || ' where ' || v_where;
end;
$$;
