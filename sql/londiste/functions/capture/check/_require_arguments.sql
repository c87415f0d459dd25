create or replace function londiste._require_arguments(i_relid oid, i_args text[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Raises LD005 for arguments of a trigger with which each write into the table would fail.
 *
 * i_args -- without the names of queue and table.  A warning names columns of ignore= that the
 * table does not have: they have no effect.
 */
declare
    v_table text := (
        select format('%s.%s', n.nspname, c.relname)
        from pg_class as c
            join pg_namespace as n on n.oid = c.relnamespace
        where c.oid = i_relid);
    v_columns text[] := array(select c.name from pgq._row_columns(i_relid) as c order by c.pos);
    v_fault record := londiste._argument_fault(i_relid, i_args);
    v_missing text;
begin
    if v_fault.fault is not null then
        raise exception using
            errcode = 'LD005',
            message = format('trigger argument %L does not fit table %s: %s', v_fault.argument, v_table,
                v_fault.fault),
            detail = 'each write into the table would fail' || case when v_fault.columns <> '{}' then
                '; words that are columns of the table, as written: '
                || array_to_string(v_fault.columns, ', ') else '' end,
            hint = format('correct the argument, and write a type after its value (''2024-01-31''::date);'
                ' columns of the table: %s', array_to_string(v_columns, ', '));
    end if;
    select n.name into v_missing
    from unnest(i_args) as a (arg)
        cross join unnest(pgq._column_list(string_to_array(substr(a.arg, 8), ','), v_columns)) as n (name)
    where starts_with(a.arg, 'ignore=')
        and n.name <> all (v_columns)
    limit 1;
    if found then
        raise warning using
            message = format('ignore= names %s, which is no column of %s', quote_ident(v_missing), v_table),
            detail = 'it has no effect',
            hint = format('columns of the table: %s', array_to_string(v_columns, ', '));
    end if;
end;
$$;
