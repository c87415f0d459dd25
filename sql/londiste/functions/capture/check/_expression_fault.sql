create or replace function londiste._expression_fault(
    i_relid oid,
    i_expression text,
    i_condition bool,
    i_path text)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set standard_conforming_strings = on
set check_function_bodies = on
as $$
/*
 * Returns why an expression of a trigger on a table fails for each row; NULL: no reason known.
 *
 * i_condition -- it must be boolean.
 * i_path -- the search_path of the expression; NULL: that of each writer, which is not known.
 *
 * Nothing of the expression is executed, because others may have written it: it is parsed, and a
 * statement with it is prepared.  That looks up names and types only.  Literals are NULL there,
 * because the input of a literal may run code (a composite or an array of a domain with a check).
 * Where a literal remains, names are not looked up.
 *
 * The tables that it names are locked for that, against DDL only: lock_timeout limits the wait.
 */
declare
    v_columns text[] := array(select c.name from pgq._row_columns(i_relid) as c);
    v_value text := pgq._expression_sql(i_expression, v_columns, 'pgq_row');
    v_literal constant text := E'(?:--[^\\n]*|/[*](?:[^*]|[*]+[^*/])*[*]+/)'
        '|\\m(?:date|time|timestamp|timestamptz|timetz|interval|bool|boolean|int2|int4|int8|numeric|float8'
        '|text|uuid|json|jsonb|inet|cidr|bytea)\\s*''(?:[^'']|'''')*'''
        '|(?:b|x|u&)''(?:[^'']|'''')*''|e''(?:[^''\\\\]|\\\\.|'''')*''|n?''(?:[^'']|'''')*'''
        '|"(?:[^"]|"")*"|\\w+|.';
    v_without text;
    v_table text;
    v_known bool;
begin
    if i_condition then
        v_value := format(E'(%s\n) and true', v_value);
    end if;
    begin
        -- The block is compiled, which parses the expression, and ends before it.
        execute format('do language plpgsql %L',
            format(E'begin return; perform (select %s\n); end', v_value));
    exception
        when syntax_error or invalid_escape_sequence then
            return sqlerrm;
        when others then
            return null;
    end;

    select string_agg(case
            when t.found[1] ~ '^(--|/[*])' then ' '
            when t.found[1] ~* '^(b|x|u&)''' then t.found[1]
            when t.found[1] ~ E'^\\w.*''$' and t.found[1] !~* '^[en]''' then
                ' null::' || lower(substring(t.found[1] from E'^\\w+')) || ' '
            when t.found[1] ~ '''$' then ' null '
            else t.found[1] end, '' order by t.place)
        into v_without
    from regexp_matches(v_value, v_literal, 'gi') with ordinality as t (found, place);
    -- The first two begin literals; the last one would begin another statement.
    if v_without ~ '[''$;]' then
        return null;
    end if;
    select format('%I.%I', n.nspname, y.typname) into v_table
    from pg_type as y
        join pg_namespace as n on n.oid = y.typnamespace
    where y.typrelid = i_relid;
    v_known := i_path is not null and not exists (
        select from pg_namespace as n
        where quote_ident(n.nspname) = any (string_to_array(i_path, ', '))
            and not has_schema_privilege(n.oid, 'usage'));
    perform set_config('search_path',
        coalesce(i_path, (select s.reset_val from pg_settings as s where s.name = 'search_path')), true);
    begin
        execute pg_catalog.format('do language plpgsql %L',
            pg_catalog.format(E'begin return; perform (select %s\n); end', v_without));
    exception
        when others then
            -- A literal in a place where NULL cannot be.
            return null;
    end;
    begin
        execute pg_catalog.format(
            E'prepare londiste_expression_fault as select (select %s\n) from (select (null::%s).*) as pgq_row',
            v_without, v_table);
        execute 'deallocate londiste_expression_fault';
    exception
        when undefined_column or datatype_mismatch then
            return sqlerrm;
        when insufficient_privilege then
            return null;
        when lock_not_available then
            raise;
        when others then
            -- Class 42: what the statement says is wrong.  Class 0A: it may not be there.
            return case when v_known and pg_catalog.left(sqlstate, 2) operator(pg_catalog.=) any ('{42,0A}'::pg_catalog.text[])
                then sqlerrm end;
    end;
    return null;
end;
$$;
