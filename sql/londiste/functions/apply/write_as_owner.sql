create or replace function londiste.write_as_owner(
    i_table oid, i_statement text, i_data text, i_answer boolean, i_names text[], i_values text[])
returns text[]
language plpgsql
as $$
/*
 * Runs a statement with the rights of a table's owner, and returns the number of rows.
 *
 * So triggers, checks, defaults and index expressions of the table have the rights of its owner and
 * no more.  The result is an array with the number of rows as its only element.
 *
 * i_data -- parameter $1 of the statement; NULL: the statement has no parameter.
 * i_answer -- true: the statement is a query for one text array, which the function returns.
 * i_names, i_values -- settings of the session that the owner's code must not change, with their
 *     values outside of the transaction; NULL: the default of the session.
 *
 * Where _is_of_others() returns false, the statement runs with the rights of the caller.  The
 * function itself runs with the rights of the caller, so it gives no role a right.  It does not
 * pin search_path: the restored settings would not outlive it.
 *
 * Raises 40001 when the table does not exist any more: its name may be that of another table.
 * Raises LD300 when the owner's code has left something that would run as the caller later: a
 * cursor WITH HOLD, or a deferrable trigger or constraint whose functions run at the commit.
 */
declare
    v_owner oid;
    v_before text[];
    v_answer text[];
    v_count bigint;
begin
    select c.relowner into v_owner from pg_catalog.pg_class c where c.oid = i_table;
    if v_owner is null then
        raise exception using
            errcode = '40001',
            message = pg_catalog.format('table with oid %s was dropped or replaced', i_table);
    end if;
    if not londiste._is_of_others(v_owner) then
        if i_answer then
            execute i_statement into v_answer using i_data;
            return v_answer;
        elsif i_data is null then
            execute i_statement;
        else
            execute i_statement using i_data;
        end if;
        get diagnostics v_count = row_count;
        return array[v_count::text];
    end if;
    v_before := array(
        select pg_catalog.current_setting(n.name, true)
        from pg_catalog.unnest(i_names) with ordinality as n(name, nr)
        order by n.nr);
    execute 'select ' || londiste._owner_function(v_owner) || '($1, $2, $3)'
        into v_answer using i_statement, i_data, i_answer;
    -- Code of the owner has run: set a search path first, in which names mean Londiste's objects.
    perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    perform londiste._after_owner(i_names, i_values, v_before);
    return v_answer;
end;
$$;
